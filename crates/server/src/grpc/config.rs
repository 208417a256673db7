//! `ModelConfig`: the configuration of a model, as it was given or as it applies.

use wire::Fault;
use wire::oip::grpc::{
    ModelConfig as Message, ModelConfigRequest, ModelConfigResponse, ModelEnsembling, ModelEnsemblingStep,
    ModelInput, ModelInstanceGroup, ModelOutput, ModelParameter, ModelTransactionPolicy, ModelVersionPolicy,
    ModelVersionPolicyChoice, ModelVersionsAll, ModelVersionsLatest, ModelVersionsSpecific,
};
use wire::oip::{EnsembleStep, ModelConfig, Signature, TensorSpec, VersionPolicy};

use super::call::Call;
use super::manage::find;
use crate::oip as rest;

/// The protocol's number of the kind "CPU".
const CPU: i32 = 2;

/// Answers a call.
pub(super) async fn model_config(
    call: Call,
    message: ModelConfigRequest,
) -> Result<ModelConfigResponse, Fault> {
    let model = find(&call, &message.name, &message.version)?;
    let signature = rest::signature(&call.state, &model.name).await?;
    let given = call.state.capability(Some(&model.name))?.config;
    let none = ModelConfig::default();
    let config = described(message.name, &signature, given.as_deref().unwrap_or(&none));
    Ok(ModelConfigResponse { config: Some(config) })
}

fn described(name: String, signature: &Signature, given: &ModelConfig) -> Message {
    let Signature { inputs, outputs, platform, decoupled } = signature;
    let input = |spec: &TensorSpec| ModelInput {
        name: spec.name.clone(),
        data_type: spec.datatype.config_number(),
        dims: given.dims(spec),
        optional: spec.optional,
    };
    let output = |spec: &TensorSpec| ModelOutput {
        name: spec.name.clone(),
        data_type: spec.datatype.config_number(),
        dims: given.dims(spec),
        label_filename: given.label_file(&spec.name).to_owned(),
    };
    let parameter =
        |(name, value): &(String, String)| (name.clone(), ModelParameter { string_value: value.clone() });
    let group = ModelInstanceGroup {
        name: name.clone(),
        count: i32::try_from(given.instances.unwrap_or(1)).unwrap_or(i32::MAX),
        kind: CPU,
    };
    let steps = || ModelEnsembling { step: given.steps.iter().map(step).collect() };
    Message {
        name,
        platform: given.platform_or(platform).to_owned(),
        version_policy: Some(policy(given.versions.as_ref().unwrap_or(&VersionPolicy::default()))),
        max_batch_size: i32::try_from(given.max_batch_size).unwrap_or(i32::MAX),
        input: inputs.iter().map(input).collect(),
        output: outputs.iter().map(output).collect(),
        instance_group: vec![group],
        default_model_filename: given.file.clone().unwrap_or_default(),
        parameters: given.parameters.iter().map(parameter).collect(),
        ensemble_scheduling: (!given.steps.is_empty()).then(steps),
        backend: given.backend_or(platform).to_owned(),
        model_transaction_policy: Some(ModelTransactionPolicy { decoupled: *decoupled }),
    }
}

fn policy(policy: &VersionPolicy) -> ModelVersionPolicy {
    let choice = match policy {
        VersionPolicy::Latest(count) => {
            let num_versions = u32::try_from(*count).unwrap_or(u32::MAX);
            ModelVersionPolicyChoice::Latest(ModelVersionsLatest { num_versions })
        }
        VersionPolicy::All => ModelVersionPolicyChoice::All(ModelVersionsAll {}),
        VersionPolicy::Specific(versions) => {
            let versions = versions.iter().filter_map(|version| i64::try_from(*version).ok()).collect();
            ModelVersionPolicyChoice::Specific(ModelVersionsSpecific { versions })
        }
    };
    ModelVersionPolicy { policy_choice: Some(choice) }
}

fn step(step: &EnsembleStep) -> ModelEnsemblingStep {
    ModelEnsemblingStep {
        model_name: step.model.clone(),
        model_version: step.version.and_then(|version| i64::try_from(version).ok()).unwrap_or(-1),
        input_map: step.inputs.iter().cloned().collect(),
        output_map: step.outputs.iter().cloned().collect(),
    }
}
