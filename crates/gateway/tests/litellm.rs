//! Import of LiteLLM's configurations. The settings are those of its documentation (docs.litellm.ai, "proxy/configs",
//! "routing", "proxy/reliability", November 2026); the files are our own.

use gateway::litellm::import;
use gateway::{Config, read_config};

fn config(text: &str) -> (Config, Vec<String>) {
    let imported = import(text).unwrap();
    (read_config(&imported.toml).unwrap(), imported.remarks)
}

const BALANCED: &str = r#"
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: https://example-eu.openai.azure.com/
      api_version: "2024-10-21"
      api_key: os.environ/AZURE_EU_KEY
      rpm: 6
  - model_name: gpt-4o
    litellm_params:
      model: openai/gpt-4o
      api_key: os.environ/OPENAI_API_KEY
      rpm: 12
      input_cost_per_token: 0.0000025
      output_cost_per_token: 0.00001
      cache_read_input_token_cost: 0.00000125
  - model_name: claude
    litellm_params:
      model: claude-sonnet-4-5
      api_key: sk-ant-secret
      max_tokens: 1024
  - model_name: local
    litellm_params:
      model: hosted_vllm/meta-llama/Llama-3.1-8B-Instruct
      api_base: http://10.0.0.7:8000/v1
      timeout: 300
      stream_timeout: 2.5
      max_parallel_requests: 16
  - model_name: local
    litellm_params:
      model: ollama/llama3.1
  - model_name: gem
    litellm_params: {model: gemini/gemini-2.0-flash}
  - model_name: aws
    litellm_params: {model: bedrock/anthropic.claude-v2}
  - model_name: "*"
    litellm_params: {model: "*"}
router_settings:
  routing_strategy: simple-shuffle
  num_retries: 2
  timeout: 30
  allowed_fails: 3
  cooldown_time: 30
  redis_host: os.environ/REDIS_HOST
  model_group_alias: {gpt-4: gpt-4o, gpt-5: nothing}
litellm_settings:
  fallbacks: [{"local": ["gpt-4o", "claude"]}, {"gpt-4o": ["claude"]}, {"claude": ["local"]}]
  context_window_fallbacks: [{"gpt-4o": ["gem"]}]
  drop_params: true
  cache: true
  cache_params: {type: redis, ttl: 600}
general_settings:
  master_key: sk-1234
  database_url: os.environ/DATABASE_URL
"#;

#[test]
fn models_upstreams_and_settings_are_carried_over() {
    let (config, _) = config(BALANCED);
    let names: Vec<&str> = config.models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["gpt-4o", "claude", "local", "gem"]);
    let upstreams: Vec<(&str, &str)> =
        config.upstreams.iter().map(|u| (u.name.as_str(), u.url.as_str())).collect();
    assert_eq!(
        upstreams,
        [
            ("azure", "https://example-eu.openai.azure.com"),
            ("openai", "https://api.openai.com/v1"),
            ("anthropic", "https://api.anthropic.com"),
            ("hosted-vllm", "http://10.0.0.7:8000/v1"),
            ("ollama", "http://localhost:11434"),
            ("gemini", "https://generativelanguage.googleapis.com"),
        ]
    );
    let first = &config.models[0];
    assert_eq!(first.aliases, ["gpt-4"]);
    assert_eq!(first.fallbacks, ["claude", "gem"]);
    assert_eq!(first.targets.iter().map(|t| t.weight).collect::<Vec<_>>(), [6, 12]);
    let price = first.targets[1].price.unwrap();
    assert_eq!((price.input.0, price.output.0), (2_500_000_000, 10_000_000_000));
    assert_eq!(price.cached.unwrap().0, 1_250_000_000);
    assert_eq!(config.models[2].targets[0].model.as_deref(), Some("meta-llama/Llama-3.1-8B-Instruct"));
    assert_eq!(config.models[2].fallbacks, ["gpt-4o", "claude"]);
    let vllm = &config.upstreams[3];
    assert_eq!(vllm.tier(), gateway::config::Tier::Own);
    assert_eq!((vllm.timeouts.total.0.as_secs(), vllm.timeouts.first_byte.0.as_millis()), (300, 2_500));
    assert_eq!(vllm.max_in_flight, Some(16));
    assert_eq!(config.upstreams[1].timeouts.total.0.as_secs(), 30);
    assert_eq!(config.upstreams[0].key_env.as_deref(), Some("AZURE_EU_KEY"));
    assert_eq!(config.retry.attempts, 3);
    assert!(config.models.iter().all(|model| model.cache) && config.cache.keep.0.as_secs() == 600);
    assert!(config.keys[0].admin && config.keys[0].env.as_deref() == Some("LITELLM_MASTER_KEY"));
}

#[test]
fn what_is_not_carried_over_is_told_and_secrets_are_not() {
    let imported = import(BALANCED).unwrap();
    let all = imported.remarks.join("\n");
    for part in [
        "model_list[0] (gpt-4o): rpm of a deployment is not enforced",
        "model_list[2] (claude).litellm_params.max_tokens is not carried over",
        "model_list[2] (claude): a key stands in the file",
        "model_list[6] (aws): left out",
        "wildcard",
        "router_settings.allowed_fails is not carried over",
        "router_settings.redis_host is not carried over",
        "model_group_alias.gpt-5 is not carried over",
        "\"claude\" does not fall back to \"local\"",
        "context_window_fallbacks: written as fallbacks",
        "litellm_settings.drop_params is not carried over",
        "cache_params.type",
        "general_settings.database_url is not carried over",
        "general_settings.master_key stands in the file",
    ] {
        assert!(all.contains(part), "{part} is missing in\n{all}");
    }
    for secret in ["sk-ant-secret", "sk-1234"] {
        assert!(!all.contains(secret) && !imported.toml.contains(secret), "{secret}");
    }
}

#[test]
fn anchors_defaults_and_environment_addresses() {
    let (config, remarks) = config(
        r#"
x-common: &common
  api_key: os.environ/KEY
model_list:
  - model_name: "my model"
    litellm_params: {<<: *common, model: openai/gpt-4o-mini, api_base: os.environ/BASE, weight: 0.5}
    model_info: {mode: chat, input_cost_per_token: "1e-7", output_cost_per_token: 4e-7}
  - model_name: other
    litellm_params: {<<: *common, model: openai/gpt-4o-mini, extra_headers: {X-Team: search}}
router_settings:
  routing_strategy: latency-based-routing
litellm_settings:
  default_fallbacks: [other]
  num_retries: 20
  success_callback: [langfuse]
"#,
    );
    assert_eq!(config.models[0].name, "my-model");
    assert_eq!(config.models[0].fallbacks, ["other"]);
    assert_eq!(config.models[0].targets[0].price.unwrap().input.0, 100_000_000);
    assert_eq!(config.upstreams[1].headers["x-team"], "search");
    assert_eq!(config.retry.attempts, 8);
    let all = remarks.join("\n");
    for part in ["file.x-common", "to-be-written.invalid", "is written as \"my-model\"", "num_retries is 20"]
    {
        assert!(all.contains(part), "{part} is missing in\n{all}");
    }
    assert!(all.contains("litellm_settings.success_callback") && all.contains("model_info: mode"));
}

#[test]
fn what_cannot_be_imported_says_why() {
    for (text, part) in [
        ("", "no mapping"),
        ("a: [", "line"),
        ("model_list: []", "nothing to import"),
        ("model_list: [{litellm_params: {model: openai/a}}]", "model_list[0].model_name is missing"),
        ("model_list: [{model_name: a}]", "model_list[0].litellm_params is missing"),
        ("model_list: [{model_name: a, litellm_params: {model: sagemaker/b}}]", "no deployment"),
        (
            "model_list: [{model_name: a, litellm_params: {model: openai/b}}]\nrouter_settings: {fallbacks: 3}",
            "router_settings.fallbacks",
        ),
    ] {
        let error = import(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}
