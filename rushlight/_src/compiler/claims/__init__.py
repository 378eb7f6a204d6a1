"""Which primitives templates claim: what a call asks of its template, and where its operands lie."""
