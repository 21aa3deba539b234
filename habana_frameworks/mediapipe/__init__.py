"""The media pipeline's public names, so that programs which import them at their top start.

The pipeline decodes and transforms images on the card's media engines. It is closed source and not emulated: building a
pipe, one of its operators or an iterator over it raises `NotImplementedError`, on which programs with a fallback load
their data by `torch.utils.data.DataLoader`.
"""
