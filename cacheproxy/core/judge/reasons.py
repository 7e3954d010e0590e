"""What each reason for a break means, in a short phrase for people."""

from __future__ import annotations

from collections.abc import Mapping

from cacheproxy.core.conversation.verdict import Reason

PHRASES: Mapping[Reason, str] = {
    Reason.MODEL_CHANGED: "Another model was asked for",
    Reason.SYSTEM_CHANGED: "The system text changed",
    Reason.TOOLS_CHANGED: "The list of tools changed",
    Reason.MESSAGES_CHANGED: "An earlier message changed",
    Reason.PREVIOUS_NOT_FOUND: "The turn before was not seen here",
    Reason.TEMPLATE_CHANGED: "The chat template rendered earlier text anew",
    Reason.CHECKPOINT: "The server could only go back to an earlier checkpoint",
    Reason.CONTEXT_SHIFTED: "The server cut the start off a full context",
    Reason.NOT_CACHED: "This server reuses nothing",
    Reason.MOVED: "Another server or worker answered",
    Reason.EVICTED: "The server had dropped the earlier prompt",
    Reason.UNKNOWN: "Unknown: every known cause was ruled out",
}
