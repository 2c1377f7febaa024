"""The errors of a client: each says what went wrong when Elastane was asked for something, and the next step."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from elastane.errors import ElastaneError
from elastane.service.messages import Problem

M = TypeVar("M", bound=BaseModel)


class ClientError(ElastaneError):
    """Something was asked for and not done."""


class NotRunning(ClientError):
    """No server answers at the address."""


class RequestRefused(ClientError):
    """The service says no, and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.error)
        self.problem = problem


class Unauthorized(RequestRefused):
    """No token, or one that is not good."""


class Forbidden(RequestRefused):
    """The token's user may not do this."""


class NotFoundError(RequestRefused):
    """There is no such thing, or none that one may know of."""


class SpecRefused(RequestRefused):
    """A spec or request with wrong fields; ``problems`` names each."""

    @property
    def problems(self) -> list[dict[str, str]]:
        """``field`` and ``message`` of every mistake."""
        return self.problem.problems


class Busy(RequestRefused):
    """Too many requests, or a service that is not in charge, also after waiting."""


_KINDS: dict[int, type[RequestRefused]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFoundError,
    422: SpecRefused,
    429: Busy,
    503: Busy,
}
_NEXT_STEP = {401: "; give one with $ELASTANE_TOKEN, or let an admin make one: elastane token new"}


def refusal(status: int, body: bytes) -> RequestRefused:
    """The error that an answer stands for."""
    try:
        problem = Problem.model_validate_json(body)
    except ValueError:  # something between us and the service answered
        problem = Problem(error=f"the answer was not Elastane's (status {status}); check the URL")
    if status in _NEXT_STEP:
        problem = problem.model_copy(update={"error": problem.error + _NEXT_STEP[status]})
    return _KINDS.get(status, RequestRefused)(problem)


def checked(model: type[M], **values: object) -> M:
    """A request, refused here and in our words if the service could not but refuse it."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        wrong = [
            {"field": ".".join(map(str, found["loc"])), "message": found["msg"]} for found in error.errors()
        ]
        told = "; ".join(f"{mistake['field']}: {mistake['message']}" for mistake in wrong)
        raise SpecRefused(Problem(error=told, kind="request", problems=wrong)) from None
