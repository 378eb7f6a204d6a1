"""Programs of several processes that are started again, by as many machines as there are."""
