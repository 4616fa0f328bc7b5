//! The members of a Gemini request that hold no credential.
//!
//! The members are those of Google's schema (`GenerateContentRequest`, as `google-genai` writes
//! it). Not among them: `labels`, which serve the account's bill; of the tools `authConfig`,
//! `retrieval`, `mcpServers` and the searches with keys of their own.

use crate::provider::allowed::{LOCATION, Members, Rule};

pub(super) const REQUEST: Members = &[
    (
        &["cachedContent", "continuationToken", "model", "serviceTier"],
        Rule::Plain,
    ),
    (
        &["contents", "systemInstruction"],
        Rule::Settings(&[(&["role"], Rule::Plain), (&["parts"], PARTS)]),
    ),
    (&["generationConfig"], CONFIG),
    (
        &["safetySettings"],
        Rule::Settings(&[(&["category", "method", "threshold"], Rule::Plain)]),
    ),
    (&["tools"], TOOLS),
    (
        &["toolConfig"],
        Rule::Tool(
            &[],
            &[
                (&["includeServerSideToolInvocations"], Rule::Plain),
                (
                    &["functionCallingConfig"],
                    Rule::Tool(
                        &[],
                        &[(
                            &[
                                "allowedFunctionNames",
                                "mode",
                                "streamFunctionCallArguments",
                            ],
                            Rule::Plain,
                        )],
                    ),
                ),
                (
                    &["retrievalConfig"],
                    Rule::Tool(
                        &[],
                        &[
                            (&["languageCode"], Rule::Plain),
                            (
                                &["latLng"],
                                Rule::Tool(&[], &[(&["latitude", "longitude"], Rule::Plain)]),
                            ),
                        ],
                    ),
                ),
            ],
        ),
    ),
];

/// A part has a member instead of a type, so a copy needs all of its members.
const PARTS: Rule = Rule::Tool(
    &[],
    &[
        (&["text", "thought", "thoughtSignature"], Rule::Plain),
        (&["inlineData"], BLOB),
        (&["fileData"], FILE),
        (&["functionCall", "toolCall"], CALL),
        (
            &["functionResponse", "toolResponse"],
            Rule::Tool(
                &[],
                &[
                    (
                        &["id", "name", "scheduling", "toolType", "willContinue"],
                        Rule::Plain,
                    ),
                    (&["response"], Rule::Text),
                    (
                        &["parts"],
                        Rule::Tool(&[], &[(&["inlineData"], BLOB), (&["fileData"], FILE)]),
                    ),
                ],
            ),
        ),
        (
            &["codeExecutionResult"],
            Rule::Tool(&[], &[(&["id", "outcome", "output"], Rule::Plain)]),
        ),
        (
            &["executableCode"],
            Rule::Tool(&[], &[(&["code", "id", "language"], Rule::Plain)]),
        ),
        (
            &["mediaResolution"],
            Rule::Tool(&[], &[(&["level", "numTokens"], Rule::Plain)]),
        ),
        (
            &["videoMetadata"],
            Rule::Tool(&[], &[(&["endOffset", "fps", "startOffset"], Rule::Plain)]),
        ),
    ],
);

const BLOB: Rule = Rule::Tool(&[], &[(&["data", "displayName", "mimeType"], Rule::Plain)]);
const FILE: Rule = Rule::Tool(
    &[],
    &[(&["displayName", "fileUri", "mimeType"], Rule::Plain)],
);
const CALL: Rule = Rule::Tool(
    &[],
    &[
        (&["id", "name", "toolType", "willContinue"], Rule::Plain),
        (&["args", "partialArgs"], Rule::Text),
    ],
);

const CONFIG: Rule = Rule::Settings(&[
    (
        &[
            "audioTimestamp",
            "candidateCount",
            "enableAffectiveDialog",
            "enableEnhancedCivicAnswers",
            "frequencyPenalty",
            "logprobs",
            "maxOutputTokens",
            "mediaResolution",
            "presencePenalty",
            "responseLogprobs",
            "responseMimeType",
            "responseModalities",
            "seed",
            "stopSequences",
            "temperature",
            "topK",
            "topP",
        ],
        Rule::Plain,
    ),
    (
        &[
            "_responseJsonSchema",
            "responseFormat",
            "responseJsonSchema",
            "responseSchema",
        ],
        Rule::Text,
    ),
    (
        &["imageConfig"],
        Rule::Settings(&[(
            &[
                "aspectRatio",
                "imageSize",
                "outputCompressionQuality",
                "outputMimeType",
                "personGeneration",
            ],
            Rule::Plain,
        )]),
    ),
    (
        &["routingConfig"],
        Rule::Settings(&[(
            &["autoMode", "manualMode"],
            Rule::Settings(&[(&["modelName", "modelRoutingPreference"], Rule::Plain)]),
        )]),
    ),
    (
        &["speechConfig"],
        Rule::Settings(&[
            (&["languageCode"], Rule::Plain),
            (&["voiceConfig"], VOICE),
            (
                &["multiSpeakerVoiceConfig"],
                Rule::Settings(&[(
                    &["speakerVoiceConfigs"],
                    Rule::Settings(&[(&["speaker"], Rule::Plain), (&["voiceConfig"], VOICE)]),
                )]),
            ),
        ]),
    ),
    (
        &["thinkingConfig"],
        Rule::Settings(&[(
            &["includeThoughts", "thinkingBudget", "thinkingLevel"],
            Rule::Plain,
        )]),
    ),
]);

const VOICE: Rule = Rule::Settings(&[(
    &["prebuiltVoiceConfig"],
    Rule::Settings(&[(&["voiceName"], Rule::Plain)]),
)]);

const TOOLS: Rule = Rule::Tool(
    &[],
    &[
        (
            &["functionDeclarations"],
            Rule::Tool(
                &[],
                &[
                    (&["behavior", "description", "name"], Rule::Plain),
                    (
                        &[
                            "parameters",
                            "parametersJsonSchema",
                            "response",
                            "responseJsonSchema",
                        ],
                        Rule::Text,
                    ),
                ],
            ),
        ),
        (&["codeExecution", "urlContext"], Rule::Tool(&[], &[])),
        (
            &["computerUse"],
            Rule::Tool(
                &[],
                &[(
                    &[
                        "disabledSafetyPolicies",
                        "enablePromptInjectionDetection",
                        "environment",
                        "excludedPredefinedFunctions",
                    ],
                    Rule::Plain,
                )],
            ),
        ),
        (
            &["fileSearch"],
            Rule::Tool(
                &[],
                &[(
                    &["fileSearchStoreNames", "metadataFilter", "topK"],
                    Rule::Plain,
                )],
            ),
        ),
        (
            &["googleMaps"],
            Rule::Tool(&[], &[(&["enableWidget", "groundingTypes"], Rule::Plain)]),
        ),
        (
            &["enterpriseWebSearch", "googleSearch"],
            Rule::Tool(
                &[],
                &[
                    (&["blockingConfidence", "excludeDomains"], Rule::Plain),
                    (
                        &["searchTypes"],
                        Rule::Tool(
                            &[],
                            &[(&["imageSearch", "webSearch"], Rule::Tool(&[], &[]))],
                        ),
                    ),
                    (
                        &["timeRangeFilter"],
                        Rule::Tool(&[], &[(&["endTime", "startTime"], Rule::Plain)]),
                    ),
                    (&["userLocation"], LOCATION),
                ],
            ),
        ),
        (
            &["googleSearchRetrieval"],
            Rule::Tool(
                &[],
                &[(
                    &["dynamicRetrievalConfig"],
                    Rule::Tool(&[], &[(&["dynamicThreshold", "mode"], Rule::Plain)]),
                )],
            ),
        ),
    ],
);
