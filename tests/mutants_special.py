"""x"""

SPECIAL = []


def equivalent(file: str, line: str, change: str) -> bool:
    return False
