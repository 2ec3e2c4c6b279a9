"""Programs that use `dex_agents` as a stranger would: through its public names only."""
