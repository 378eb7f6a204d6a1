"""Programs that leave Python: a model as a shared object with a C interface, and packages around it
(docs/packages.md)."""
