"""The torch device `hpu`: native bridge, registration, autocast and random numbers."""
