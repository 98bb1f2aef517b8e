"""In which order?"""
