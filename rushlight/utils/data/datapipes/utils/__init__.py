"""What pipes are made with."""
