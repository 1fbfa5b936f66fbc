"""Student code runs in a sandbox that holds inputs only; answers stay with a trusted judge.

Three processes: `engine` (P0, the grader's own) starts `kernel` (P1, the student's cells
in bubblewrap) and `referee` (P2, hidden tests), and relays plain data between them.
"""
