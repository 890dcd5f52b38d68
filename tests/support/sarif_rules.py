"""The rules of the published schema of SARIF 2.1.0 (OASIS, errata 01) for the objects that gpusim writes: their keys,
which of them must be there, and their values. A key that an object may not have is refused, as the published schema
does."""

from __future__ import annotations

from typing import Any

_TEXT: dict[str, Any] = {"type": "string"}
_INDEX = {"type": "integer", "minimum": -1}
_POSITIVE = {"type": "integer", "minimum": 1}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_STRINGS = {"type": "object", "additionalProperties": _TEXT}
_BAG = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True, "items": _TEXT}}}


def _object(required: str = "", also: str = "", **known: Any) -> dict[str, Any]:
    """An object of the ``known`` keys, of those in ``also`` that gpusim does not write (any value), and no others."""
    keys: dict[str, Any] = {**{key: {} for key in also.split()}, **known, "properties": _BAG}
    return {"type": "object", "additionalProperties": False, "properties": keys, "required": required.split()}


def _list(of: dict[str, Any], **rules: Any) -> dict[str, Any]:
    return {"type": "array", "items": of, **rules}


_STRING = _object("text", text=_TEXT, markdown=_TEXT)
_MESSAGE = {**_object(text=_TEXT, markdown=_TEXT, id=_TEXT, arguments=_list(_TEXT)),
            "anyOf": [{"required": ["text"]}, {"required": ["id"]}]}  # fmt: skip
_ARTIFACT = _object(
    uri={"type": "string", "format": "uri-reference"}, uriBaseId=_TEXT, index=_INDEX, description=_MESSAGE
)
_REGION = _object(
    also="endColumn byteOffset byteLength charOffset charLength snippet message sourceLanguage",
    startLine=_POSITIVE, startColumn=_POSITIVE, endLine=_POSITIVE,
)  # fmt: skip
_PHYSICAL = {**_object(also="address", artifactLocation=_ARTIFACT, region=_REGION, contextRegion=_REGION),
             "anyOf": [{"required": ["address"]}, {"required": ["artifactLocation"]}]}  # fmt: skip
_LOGICAL = _object(
    name=_TEXT, fullyQualifiedName=_TEXT, decoratedName=_TEXT, kind=_TEXT, index=_INDEX, parentIndex=_INDEX
)
_LOCATION = _object(
    also="annotations relationships", id=_INDEX, physicalLocation=_PHYSICAL, message=_MESSAGE,
    logicalLocations=_list(_LOGICAL, uniqueItems=True),
)  # fmt: skip
_SUPPRESSION = _object(
    "kind", "guid location", kind={"enum": ["inSource", "external"]}, justification=_TEXT,
    status={"enum": ["accepted", "underReview", "rejected"]},
)  # fmt: skip
_RESULT = _object(
    "message",
    "rule analysisTarget guid correlationGuid occurrenceCount stacks codeFlows graphs graphTraversals relatedLocations"
    " attachments hostedViewerUri workItemUris provenance fixes taxa webRequest webResponse",
    ruleId=_TEXT,
    ruleIndex=_INDEX,
    kind={"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
    level=_LEVEL,
    message=_MESSAGE,
    locations=_list(_LOCATION),
    partialFingerprints=_STRINGS,
    fingerprints=_STRINGS,
    suppressions=_list(_SUPPRESSION, uniqueItems=True),
    baselineState={"enum": ["new", "unchanged", "updated", "absent"]},
    rank={"type": "number", "minimum": -1, "maximum": 100},
)
_RULE = _object(
    "id",
    "deprecatedIds guid deprecatedGuids deprecatedNames messageStrings help relationships",
    id=_TEXT,
    name=_TEXT,
    shortDescription=_STRING,
    fullDescription=_STRING,
    helpUri={"type": "string", "format": "uri"},
    defaultConfiguration=_object(also="parameters rank", enabled={"type": "boolean"}, level=_LEVEL),
)
_COMPONENT = _object(
    "name",
    "guid organization product productSuite shortDescription fullDescription fullName dottedQuadFileVersion"
    " releaseDateUtc downloadUri informationUri globalMessageStrings notifications taxa locations language contents"
    " isComprehensive localizedDataSemanticVersion minimumRequiredLocalizedDataSemanticVersion associatedComponent"
    " translationMetadata supportedTaxonomies",
    name=_TEXT,
    version=_TEXT,
    semanticVersion=_TEXT,
    rules=_list(_RULE, uniqueItems=True),
)
_RUN = _object(
    "tool",
    "invocations conversion language versionControlProvenance originalUriBaseIds artifacts logicalLocations graphs"
    " automationDetails runAggregates baselineGuid redactionTokens defaultEncoding defaultSourceLanguage"
    " newlineSequences externalPropertyFileReferences threadFlowLocations taxonomies addresses translations policies"
    " webRequests webResponses specialLocations",
    tool=_object("driver", "extensions", driver=_COMPONENT),
    results=_list(_RESULT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
)
SARIF_RULES = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    **_object(
        "version runs", "inlineExternalProperties", version={"enum": ["2.1.0"]}, runs=_list(_RUN),
        **{"$schema": {"type": "string", "format": "uri"}},
    ),
}  # fmt: skip
