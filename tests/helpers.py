"""Where things are, and the two sizes of policy that tests use."""

from pathlib import Path

from rlvr.settings import PolicySettings

ROOT = Path(__file__).parent.parent
TINY = ROOT / "tests" / "tiny.yaml"
FULL_SIZE = PolicySettings(width=64, heads=4, feed_forward=128, layers=2)
SMALL = PolicySettings(width=8, heads=2, feed_forward=16, layers=2)
