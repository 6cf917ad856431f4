"""Converts botocore's errors into Interlock's.

A failure is classified: can the request be retried, may it have taken effect all the same, and which of Interlock's
errors is it? Only a failed condition means contention; everything else is an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore import exceptions as boto

from interlock import errors
from interlock.stores.dynamodb.address import TableAddress

_THROTTLED = (
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
)
_LOCKED = ("TransactionConflictException", "TransactionInProgressException")
_UNKNOWN_CALLER = (
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
)
_NOT_SENT = (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError, boto.SSLError)
_NO_CREDENTIALS = (boto.NoCredentialsError, boto.PartialCredentialsError, boto.CredentialRetrievalError)


class ConditionFailed(Exception):
    """The item does not meet the condition. `item` is None if the engine does not report it, or if no item exists."""

    def __init__(self, item: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.item = item


@dataclass(frozen=True)
class RequestFailure:
    error: Exception
    retryable: bool = False
    in_doubt: bool = False
    """True if the request may have taken effect."""


def classified(error: Exception, address: TableAddress, operation: str) -> RequestFailure:
    if isinstance(error, boto.ClientError):
        return _answered(error, address, operation)
    if isinstance(error, _NO_CREDENTIALS):
        return RequestFailure(
            errors.AccessDenied(
                f"No AWS credentials for {address} were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use "
                "a profile or a role."
            )
        )
    if isinstance(error, boto.NoRegionError):
        return RequestFailure(
            errors.ConfigurationError(
                f"The AWS region of {address} is unknown: add ?region=… to the URL, or set AWS_REGION."
            )
        )
    if isinstance(error, TimeoutError | OSError | boto.ConnectionError | boto.HTTPClientError):
        return _unanswered(error, address)
    return RequestFailure(errors.StatementFailed(f"{operation} on {address} failed: {error}."))


def _answered(error: boto.ClientError, address: TableAddress, operation: str) -> RequestFailure:
    code = error.response.get("Error", {}).get("Code", "")
    said = error.response.get("Error", {}).get("Message", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "ConditionalCheckFailedException":
        return RequestFailure(ConditionFailed(error.response.get("Item")))
    if code == "TransactionCanceledException":
        return _cancelled(error, address)
    if code in _THROTTLED:
        return RequestFailure(_throttled(address, code), retryable=True)
    if code in _LOCKED:
        return RequestFailure(_locked(address), retryable=True)
    if status >= 500 or code == "RequestTimeout":
        sentence = f"{address} answered with a server error ({status} {code}): try again."
        return RequestFailure(errors.DatabaseUnreachable(sentence), retryable=True, in_doubt=True)
    return RequestFailure(_refused(code, said, address, operation))


def _refused(code: str, said: str, address: TableAddress, operation: str) -> errors.InterlockError:
    if code == "ResourceNotFoundException":
        return errors.SchemaMissing(
            f"There is no table {address.table!r} that is ready for use: create it with `interlock store create URL`, "
            "or check the region in the table's URL."
        )
    if code == "AccessDeniedException":
        return errors.PermissionMissing(
            f"These AWS credentials may not do {operation} on {address}: "
            "give them the policy of docs/how-to/dynamodb.md."
        )
    if code in _UNKNOWN_CALLER:
        return errors.AccessDenied(f"{address} does not accept these AWS credentials ({code}): renew or correct them.")
    if code == "UnknownOperationException":
        return errors.NotSupported(
            f"The engine behind {address} does not know {operation}, which Interlock needs here: use DynamoDB itself."
        )
    return errors.StatementFailed(f"{address} refused {operation}: {code}: {said}", sqlstate=code)


def _cancelled(error: boto.ClientError, address: TableAddress) -> RequestFailure:
    """Returns the failure for a cancelled transaction, which has a reason for each of its items."""
    reasons = error.response.get("CancellationReasons") or []
    codes = [reason.get("Code") for reason in reasons]
    if "ConditionalCheckFailed" in codes:
        return RequestFailure(ConditionFailed(None))
    if "TransactionConflict" in codes:
        return RequestFailure(_locked(address), retryable=True)
    if "ThrottlingError" in codes or "ProvisionedThroughputExceeded" in codes:
        return RequestFailure(_throttled(address, "ThrottlingError"), retryable=True)
    told = error.response.get("Error", {}).get("Message", "")
    return RequestFailure(errors.StatementFailed(f"{address} refused a transaction: {told}"))


def _unanswered(error: Exception, address: TableAddress) -> RequestFailure:
    if isinstance(error, TimeoutError | boto.ReadTimeoutError | boto.ConnectTimeoutError):
        sentence = f"{address} did not answer in time: check the network and the table's endpoint."
    else:
        sentence = f"No server answers for {address} ({type(error).__name__}): check the table's region and endpoint."
    return RequestFailure(
        errors.DatabaseUnreachable(sentence), retryable=True, in_doubt=not isinstance(error, _NOT_SENT)
    )


def _throttled(address: TableAddress, code: str) -> errors.StoreThrottled:
    return errors.StoreThrottled(
        f"{address} takes no more requests for now ({code}): raise the table's capacity, or send fewer requests."
    )


def _locked(address: TableAddress) -> errors.LockNotAvailable:
    return errors.LockNotAvailable(f"Transactions locked an item of {address} for too long: try again.")
