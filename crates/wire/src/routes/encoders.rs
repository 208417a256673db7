//! Routes of encoders.

use super::route::{COHERE, ENCODER, Route, TEI};

pub(super) const ROUTES: &[Route] = &[
    Route {
        path: "/v1/embeddings",
        id: "createEmbedding",
        summary: "Makes a vector for each input.",
        answers: "The vectors.",
        request: Some("EmbeddingsRequest"),
        answer: "EmbeddingList",
        ..ENCODER
    },
    Route {
        path: "/embeddings",
        id: "createEmbeddingAlias",
        summary: "Makes a vector for each input (alias without /v1).",
        answers: "The vectors.",
        request: Some("EmbeddingsRequest"),
        answer: "EmbeddingList",
        ..ENCODER
    },
    Route {
        path: "/v1/embed",
        id: "cohereEmbedV1",
        summary: "Makes vectors of texts (Cohere, version 1).",
        answers: "The vectors, as a list or by type.",
        request: Some("CohereEmbedRequest"),
        answer: "CohereEmbeddings",
        ..COHERE
    },
    Route {
        path: "/v2/embed",
        id: "cohereEmbed",
        summary: "Makes vectors of texts (Cohere).",
        answers: "The vectors by type.",
        request: Some("CohereEmbedRequest"),
        answer: "CohereEmbeddings",
        ..COHERE
    },
    Route {
        path: "/v1/rerank",
        id: "rerankV1",
        summary: "Ranks documents by relevance to a query (Jina, Cohere, vLLM).",
        answers: "The documents by descending relevance, with their texts.",
        request: Some("RerankRequest"),
        answer: "RerankResults",
        ..COHERE
    },
    Route {
        path: "/v2/rerank",
        id: "rerankV2",
        summary: "Ranks documents by relevance to a query (Cohere).",
        answers: "The documents by descending relevance.",
        request: Some("RerankRequest"),
        answer: "RerankResults",
        ..COHERE
    },
    Route {
        path: "/rerank",
        id: "rerank",
        summary: "Ranks texts by relevance to a query (text-embeddings-inference, vLLM).",
        answers: "The texts or documents by descending relevance.",
        request: Some("RankRequest"),
        answer: "Ranks",
        ..TEI
    },
    Route {
        path: "/score",
        id: "score",
        summary: "Scores pairs of texts (vLLM).",
        answers: "A score for each pair.",
        request: Some("ScoreRequest"),
        answer: "Scores",
        ..ENCODER
    },
    Route {
        path: "/v1/score",
        id: "scoreV1",
        summary: "Scores pairs of texts (vLLM).",
        answers: "A score for each pair.",
        request: Some("ScoreRequest"),
        answer: "Scores",
        ..ENCODER
    },
    Route {
        path: "/classify",
        id: "classify",
        summary: "Classifies inputs (vLLM).",
        answers: "The label of each input, with the scores of all.",
        request: Some("ClassifyRequest"),
        answer: "Classes",
        ..ENCODER
    },
    Route {
        path: "/pooling",
        id: "pooling",
        summary: "Makes vectors or scores of inputs (vLLM).",
        answers: "The numbers of each input.",
        request: Some("PoolingRequest"),
        answer: "Pooled",
        ..ENCODER
    },
    Route {
        path: "/embed",
        id: "teiEmbed",
        summary: "Makes a vector for each input (text-embeddings-inference).",
        answers: "A list of vectors.",
        request: Some("TeiEmbedRequest"),
        answer: "Vectors",
        ..TEI
    },
    Route {
        path: "/embed_all",
        id: "teiEmbedAll",
        summary: "Makes a vector for each token of each input (text-embeddings-inference).",
        answers: "A list of vectors for each input.",
        request: Some("TeiEmbedRequest"),
        answer: "TokenVectors",
        ..TEI
    },
    Route {
        path: "/embed_sparse",
        id: "teiEmbedSparse",
        summary: "Makes a sparse vector for each input (text-embeddings-inference).",
        answers: "A list of weights for each input.",
        request: Some("TeiEmbedRequest"),
        answer: "SparseVectors",
        ..TEI
    },
    Route {
        path: "/predict",
        id: "teiPredict",
        summary: "Classifies texts or pairs of texts (text-embeddings-inference).",
        answers: "The labels by descending score.",
        request: Some("PredictRequest"),
        answer: "Predictions",
        ..TEI
    },
    Route {
        path: "/similarity",
        id: "teiSimilarity",
        summary: "Compares a sentence with others (text-embeddings-inference).",
        answers: "A score for each sentence.",
        request: Some("SimilarityRequest"),
        answer: "Similarities",
        ..TEI
    },
    Route {
        path: "/pipeline/feature-extraction",
        id: "featureExtraction",
        summary: "Makes a vector for each input (Hugging Face).",
        answers: "A list of vectors.",
        request: Some("TeiEmbedRequest"),
        answer: "Vectors",
        ..TEI
    },
    Route {
        path: "/pipeline/sentence-similarity",
        id: "sentenceSimilarity",
        summary: "Compares a sentence with others (Hugging Face).",
        answers: "A score for each sentence.",
        request: Some("SimilarityRequest"),
        answer: "Similarities",
        ..TEI
    },
    Route {
        path: "/pipeline/text-classification",
        id: "textClassification",
        summary: "Classifies texts (Hugging Face).",
        answers: "The labels of each text by descending score.",
        request: Some("TextClassificationRequest"),
        answer: "TextClasses",
        ..TEI
    },
    Route {
        path: "/pipeline/token-classification",
        id: "tokenClassification",
        summary: "Finds the entities in texts (Hugging Face).",
        answers: "The entities, with their places in characters.",
        request: Some("TokenClassificationRequest"),
        answer: "HfEntities",
        ..TEI
    },
    Route {
        path: "/v1/entities",
        id: "createEntities",
        summary: "Finds the entities in texts.",
        answers: "The entities of each text, with their places in bytes and characters.",
        request: Some("EntitiesRequest"),
        answer: "EntityList",
        ..ENCODER
    },
    Route {
        path: "/v1/chunk",
        id: "createChunks",
        summary: "Cuts a text into parts that fit a model.",
        answers: "The parts, with their places in bytes and characters.",
        request: Some("ChunkRequest"),
        answer: "ChunkList",
        ..ENCODER
    },
];
