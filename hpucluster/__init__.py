"""A cluster of emulated cards: one Ray actor hosts one card and runs one rank of the user's script.

Kept free of imports: a card's process loads only the modules that it needs, and the driver never loads torch.
"""
