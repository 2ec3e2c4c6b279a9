"""`python -m dex_agents` is the `dex-agents` command."""

from __future__ import annotations

import sys

from dex_agents.cli.main import main

sys.exit(main())
