"""Constants that describe media operators, as far as public programs name them. The lower-case names are the API's."""

from __future__ import annotations


class dtype:
    """Element types of a media tensor, as NumPy names them."""

    NDT = ""
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class imgtype:
    """Layouts of a decoded image: interleaved (`_I`) or planar (`_P`)."""

    RGB_I = "rgb-i"
    RGB_P = "rgb-p"


class ftype:
    """Filters of a resize."""

    NEAREST = 1
    LANCZOS = 2
    BI_LINEAR = 3
    BICUBIC = 4
    BOX = 5


class randomCropType:
    """How the decoder chooses its crop."""

    NO_RANDOM_CROP = 0
    RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP = 1
    RANDOMIZED_ASPECT_RATIO_CROP = 2
    CENTER_CROP = 3


class decoderStage:
    """Which parts of the decoder run."""

    ENABLE_ALL_STAGES = 0
    ENABLE_SINGLE_STAGE = 1


class readerOutType:
    """What a reader hands on."""

    FILE_LIST = 0
    BUFFER_LIST = 1
    ADDRESS_LIST = 2
