"""Take this folder off the path: ``benchmarks/tfcore.py`` bears the name of the package that is measured.

Every benchmark imports this first.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path = [folder for folder in sys.path if Path(folder).resolve() != HERE]
