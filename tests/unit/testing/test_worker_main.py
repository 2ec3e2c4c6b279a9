from __future__ import annotations

import pytest

from dex_agents import AgentSessionFlow, InvalidInputError
from dex_agents.builtin_loop import AgentDefinition, create_builtin_agent_session_flow
from dex_agents.testing import ScriptedModelClient, ScriptedModelReply
from dex_agents.testing.worker_main import load_flow

NOT_A_FUNCTION = 3


def create_flow(name: str = "agent") -> AgentSessionFlow:
    definition = AgentDefinition(
        name=name, model=ScriptedModelClient(lambda request: ScriptedModelReply(text="Hello."))
    )
    return create_builtin_agent_session_flow(definition, name)


def return_text() -> str:
    return "text"


def test_a_flow_is_made_by_its_factory_with_the_arguments() -> None:
    flow = load_flow(f"{__name__}:create_flow", ["Desk"])

    assert flow.get_flow_type() == "Desk"


@pytest.mark.parametrize(
    ("factory", "problem"),
    [
        ("module", "must be `package.module:name`, got 'module'"),
        (":name", "must be `package.module:name`, got ':name'"),
        (f"{__name__}:", f"must be `package.module:name`, got '{__name__}:'"),
        (f"{__name__}:missing", f"'{__name__}' has no function 'missing'"),
        (f"{__name__}:NOT_A_FUNCTION", f"'{__name__}' has no function 'NOT_A_FUNCTION'"),
        (f"{__name__}:return_text", f"'{__name__}:return_text' returned a str, not an AgentSessionFlow"),
    ],
)
def test_a_factory_that_is_none_is_refused(factory: str, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        load_flow(factory, [])

    assert (caught.value.field, caught.value.problem) == ("factory", problem)


def test_a_module_that_does_not_exist_says_so() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        load_flow("no_such_module:create_flow", [])
