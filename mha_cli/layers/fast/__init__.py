"""What is there for speed or memory: the same numbers as the plain formulas, computed in another order. Each module says what it buys."""
