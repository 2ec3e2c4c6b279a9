"""What a browser sees of a session: parts of a UI stream, framed as server-sent events.

Here a batch of parts becomes bytes (`encode_ui_frames`), encoded once however many viewers read them
(`UIFrameFeed`). A part is a JSON object of the AI SDK's UI message stream or of AG-UI. What a session decides
never lives here: a stream is a view, and the snapshot is the truth. Begin with `ui_frames`.
"""

from dex_agents.ui_stream.frame_feed import UIFrameFeed
from dex_agents.ui_stream.ui_frames import (
    UI_STREAM_DONE,
    UI_STREAM_KEEP_ALIVE,
    UIStreamPart,
    encode_ui_frames,
)

__all__ = ["UI_STREAM_DONE", "UI_STREAM_KEEP_ALIVE", "UIFrameFeed", "UIStreamPart", "encode_ui_frames"]
