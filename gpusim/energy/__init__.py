"""Energy of operators and launches: what each event takes, the power that follows, and the clock that a power limit
leaves."""
