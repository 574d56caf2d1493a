"""Where countries lie: the middle of each, in whole or half degrees, for distances when nothing was measured.

Facts of geography, north and east positive. Large countries are given where their people live.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TABLE: Final = """
AD 42.5 1.5    AE 24 54      AF 34 66      AL 41 20      AM 40 45      AO -12.5 18.5  AR -34 -64
AT 47.5 14.5   AU -33 147    AZ 40.5 47.5  BA 44 18      BB 13 -59.5   BD 24 90       BE 50.5 4.5
BF 13 -2       BG 43 25      BH 26 50.5    BI -3.5 30    BJ 9.5 2.5    BN 4.5 114.5   BO -17 -65
BR -15 -48     BS 24 -76     BT 27.5 90.5  BW -22 24     BY 53 28      BZ 17 -88.5    CA 48 -85
CD -3 23       CF 7 21       CG -1 15      CH 47 8       CI 8 -5       CL -33 -71     CM 6 12
CN 33 112      CO 4 -73      CR 10 -84     CU 22 -80     CV 16 -24     CY 35 33       CZ 50 15.5
DE 51 10       DJ 11.5 43    DK 56 10      DO 19 -70.5   DZ 34 3       EC -2 -78      EE 59 26
EG 29 31       ER 15 39      ES 40 -4      ET 8 38       FI 62 25      FJ -18 178     FO 62 -7
FR 47 2        GA -1 12      GB 53 -1.5    GE 42 43.5    GH 8 -2       GI 36 -5.5     GL 64.5 -51
GN 11 -10      GQ 2 10       GR 39 22      GT 15.5 -90.5 GU 13.5 145   GY 5 -59       HK 22.5 114
HN 15 -86.5    HR 45 15.5    HT 19 -72.5   HU 47 20      ID -6.5 108   IE 53 -8       IL 31.5 35
IM 54 -4.5     IN 22 78      IQ 33 44      IR 33 53      IS 65 -18     IT 43 12       JE 49 -2
JM 18 -77.5    JO 31 36      JP 36 138     KE 0 38       KG 41 75      KH 12.5 105    KP 40 127
KR 37 127.5    KW 29.5 47.5  KZ 48 68      LA 18 103     LB 34 36      LI 47 9.5      LK 7 81
LR 6.5 -9.5    LS -29.5 28.5 LT 55.5 24    LU 50 6       LV 57 25      LY 31 17       MA 32 -6
MC 43.5 7.5    MD 47 29      ME 42.5 19.5  MG -20 47     MK 41.5 21.5  ML 14 -5       MM 20 96
MN 47 105      MO 22 113.5   MR 19 -12     MT 36 14.5    MU -20 57.5   MV 3 73        MW -13.5 34
MX 21 -101     MY 3.5 102    MZ -18 35     NA -22 17     NE 15 6       NG 9 8         NI 13 -85.5
NL 52 5.5      NO 61 9.5     NP 28 84      NZ -39 175.5  OM 22 58      PA 9 -80       PE -10 -76
PG -6 147      PH 13 122     PK 31 71      PL 52 19.5    PR 18 -66.5   PS 32 35       PT 39.5 -8
PY -25 -57     QA 25.5 51    RE -21 55.5   RO 46 25      RS 44 21      RU 56 45       RW -2 30
SA 24 45       SC -4.5 55.5  SD 15 32      SE 59.5 16    SG 1.5 104    SI 46 15       SK 48.5 19.5
SL 8.5 -12     SM 44 12.5    SN 14.5 -15   SO 5 46       SR 5 -55.5    SS 7 30        SV 13.5 -89
SY 35 38       SZ -26.5 31.5 TD 13 17      TG 8 1        TH 14.5 101   TJ 38.5 70     TL -9 126
TM 38.5 59     TN 35 10      TR 39.5 33    TT 10.5 -61   TW 24 121     TZ -6 35       UA 49.5 31
UG 1 32        US 39 -95     UY -33.5 -56  UZ 41 66      VA 42 12.5    VE 9 -67       VN 16 107
XK 42.5 21     YE 15 45      ZA -28 27     ZM -14 28     ZW -18.5 30
"""


def _read(table: str) -> Mapping[str, tuple[float, float]]:
    cells = table.split()
    rows = zip(cells[::3], cells[1::3], cells[2::3], strict=True)
    return {code: (float(north), float(east)) for code, north, east in rows}


CENTROIDS: Final = _read(_TABLE)
