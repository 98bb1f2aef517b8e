"""How good is a prefix?"""
