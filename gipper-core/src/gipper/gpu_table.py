"""NVIDIA GPUs that can be rented: name, compute capability, memory sizes in GB as sold.

Source: NVIDIA's public CUDA GPU pages for the capability, data sheets for memory; sizes that only modified
cards have (a 48 GB RTX 4090) stand last. A model that is missing here stays usable under its raw name.
"""

from __future__ import annotations

from typing import Final

Row = tuple[str, tuple[float, ...]]

TABLE: Final[tuple[tuple[tuple[int, int], tuple[Row, ...]], ...]] = (
    ((12, 1), (("GB10", (128,)),)),
    (
        (12, 0),
        (
            ("RTX PRO 6000", (96,)),
            ("RTX PRO 5000", (48, 72)),
            ("RTX PRO 4500", (32,)),
            ("RTX PRO 4000", (24,)),
            ("RTX PRO 2000", (16,)),
            ("RTX 5090", (32,)),
            ("RTX 5090 D", (32, 24)),
            ("RTX 5080", (16,)),
            ("RTX 5070 Ti", (16,)),
            ("RTX 5070", (12,)),
            ("RTX 5060 Ti", (16, 8)),
            ("RTX 5060", (8,)),
            ("RTX 5050", (8,)),
        ),
    ),
    ((10, 3), (("GB300", (288,)), ("B300", (288,)))),
    ((10, 0), (("GB200", (192, 186)), ("B200", (180, 192)))),
    (
        (9, 0),
        (
            ("GH200", (96, 144)),
            ("H200", (141,)),
            ("H100", (80, 94)),
            ("H800", (80,)),
            ("H20", (96, 141)),
        ),
    ),
    (
        (8, 9),
        (
            ("L40S", (48,)),
            ("L40", (48,)),
            ("L4", (24,)),
            ("RTX 6000 Ada", (48,)),
            ("RTX 5880 Ada", (48,)),
            ("RTX 5000 Ada", (32,)),
            ("RTX 4500 Ada", (24,)),
            ("RTX 4000 Ada", (20,)),
            ("RTX 4000 SFF Ada", (20,)),
            ("RTX 2000 Ada", (16,)),
            ("RTX 4090", (24, 48)),
            ("RTX 4090 D", (24, 48)),
            ("RTX 4080 SUPER", (16,)),
            ("RTX 4080", (16,)),
            ("RTX 4070 Ti SUPER", (16,)),
            ("RTX 4070 Ti", (12,)),
            ("RTX 4070 SUPER", (12,)),
            ("RTX 4070", (12, 8)),
            ("RTX 4060 Ti", (16, 8)),
            ("RTX 4060", (8,)),
        ),
    ),
    (
        (8, 6),
        (
            ("A40", (48,)),
            ("A10", (24,)),
            ("A10G", (24,)),
            ("A16", (16,)),
            ("A2", (16,)),
            ("RTX A6000", (48,)),
            ("RTX A5500", (24,)),
            ("RTX A5000", (24,)),
            ("RTX A4500", (20,)),
            ("RTX A4000", (16,)),
            ("RTX A2000", (12, 6)),
            ("RTX 3090 Ti", (24,)),
            ("RTX 3090", (24, 48)),
            ("RTX 3080 Ti", (12,)),
            ("RTX 3080", (10, 12, 20)),
            ("RTX 3070 Ti", (8,)),
            ("RTX 3070", (8,)),
            ("RTX 3060 Ti", (8,)),
            ("RTX 3060", (12, 8, 6)),
            ("RTX 3050", (8, 6)),
        ),
    ),
    (
        (8, 0),
        (
            ("A100", (80, 40)),
            ("A100X", (80,)),
            ("A800", (80, 40)),
            ("A30", (24,)),
            ("CMP 170HX", (8,)),
        ),
    ),
    (
        (7, 5),
        (
            ("T4", (16,)),
            ("Quadro RTX 8000", (48,)),
            ("Quadro RTX 6000", (24,)),
            ("Quadro RTX 5000", (16,)),
            ("Quadro RTX 4000", (8,)),
            ("Titan RTX", (24,)),
            ("RTX 2080 Ti", (11, 22)),
            ("RTX 2080 SUPER", (8,)),
            ("RTX 2080", (8,)),
            ("RTX 2070 SUPER", (8,)),
            ("RTX 2070", (8,)),
            ("RTX 2060 SUPER", (8,)),
            ("RTX 2060", (6, 12)),
            ("GTX 1660 Ti", (6,)),
            ("GTX 1660 SUPER", (6,)),
            ("GTX 1660", (6,)),
            ("GTX 1650 SUPER", (4,)),
            ("GTX 1650 Ti", (4,)),
            ("GTX 1650", (4,)),
            ("CMP 50HX", (10,)),
        ),
    ),
    ((7, 0), (("V100", (16, 32)), ("Titan V", (12,)), ("Titan V CEO", (32,)), ("Quadro GV100", (32,)))),
    (
        (6, 1),
        (
            ("P40", (24,)),
            ("P4", (8,)),
            ("P6", (16,)),
            ("Quadro P6000", (24,)),
            ("Quadro P5000", (16,)),
            ("Quadro P4000", (8,)),
            ("Quadro P2000", (5,)),
            ("Titan Xp", (12,)),
            ("Titan X", (12,)),
            ("GTX 1080 Ti", (11,)),
            ("GTX 1080", (8,)),
            ("GTX 1070 Ti", (8,)),
            ("GTX 1070", (8,)),
            ("GTX 1060", (6, 3)),
            ("GTX 1050 Ti", (4,)),
            ("GTX 1050", (2,)),
            ("P104 100", (8, 4)),
            ("P106 100", (6,)),
        ),
    ),
    ((6, 0), (("P100", (16, 12)), ("Quadro GP100", (16,)))),
    ((5, 2), (("M40", (24, 12)), ("GTX Titan X", (12,)), ("GTX 970", (4,)))),
    ((3, 7), (("K80", (12,)),)),
)

# Every size that some card is sold with, for reading a reported amount of MiB.
SIZES_GB: Final[tuple[float, ...]] = tuple(
    sorted({size for _, rows in TABLE for _, sizes in rows for size in sizes})
)
