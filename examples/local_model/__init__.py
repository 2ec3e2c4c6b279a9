"""A real small model on this machine, behind a server that speaks Chat Completions; no key, no account."""
