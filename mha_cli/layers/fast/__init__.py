"""The numbers of the plain formulas in less time or memory, computed in another order."""
