"""Constants of pipelines, from the public documentation of the media pipeline."""

from __future__ import annotations


class dtype:
    """Types of elements."""

    UINT8 = "uint8"
    INT8 = "int8"
    UINT16 = "uint16"
    INT16 = "int16"
    UINT32 = "uint32"
    INT32 = "int32"
    UINT64 = "uint64"
    INT64 = "int64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    NDT = ""


class imgtype:
    """Layouts of images: interleaved and planar."""

    RGB_I = "rgb-i"
    RGB_P = "rgb-p"


class ftype:
    """Filters of resizing."""

    LINEAR = 1
    LANCZOS = 2
    NEAREST = 3
    BI_LINEAR = 4
    BICUBIC = 5
    SPLINE = 6
    BOX = 7


class randomCropType:
    """Ways of random cropping."""

    NO_RANDOM_CROP = 0
    RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP = 1
    RANDOMIZED_ASPECT_RATIO_CROP = 2
    CENTER_CROP = 3


class readerOutType:
    """What a reader gives."""

    FILE_LIST = 0
    BUFFER_LIST = 1
    ADDRESS_LIST = 2


class decoderStage:
    """Stages of the decoder."""

    ENABLE_ALL_STAGES = 0
    ENABLE_SINGLE_STAGE = 1
    ENABLE_TWO_STAGES = 2


class decoderType:
    """Kinds of decoder."""

    IMAGE_DECODER = 0
    VIDEO_DECODER = 1


class layout:
    """Order of dimensions."""

    NHWC = "CWHN"
    NCHW = "WHCN"
    NA = ""
