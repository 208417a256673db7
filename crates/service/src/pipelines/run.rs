//! A request to a pipeline: its parts are taken together, and its steps run one after another.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inference::{Infer, Inferred, Operation, Output, Request, RequestContext};
use pipeline::{Node, Work};
use wire::Fault;
use wire::oip::{Parameters, Tensor, check_output};

use super::models::Models;
use super::tokens::tokenize;
use super::{Pipeline, Tensors, part_of};
use crate::encode::Reader;
use crate::preparation::{Admitted, Stop, left};
use crate::registry::Lease;
use crate::signature::check;
use crate::tensor_slots::expired;
use crate::tensors::{Ended, record};

/// Bytes of tensors that a request holds between its steps.
const HELD_BYTES: usize = 128 << 20;

/// A request that runs.
struct Run<'a> {
    models: &'a dyn Models,
    name: String,
    pipeline: &'a Pipeline,
    context: &'a Arc<RequestContext>,
    deadline: Option<Instant>,
    parts: Vec<Lease>,
    tensors: Tensors,
    /// Names of classes by index, by the tensor's name.
    labels: HashMap<String, Arc<[String]>>,
}

/// Answers a request with the outputs of a pipeline.
///
/// # Errors
/// Inputs that the pipeline does not take, a part that is not there, a step that fails, a full queue, a time limit.
pub(crate) async fn answer(
    models: &dyn Models,
    model: Lease,
    pipeline: Arc<Pipeline>,
    infer: Infer,
    context: Arc<RequestContext>,
    deadline: Option<Instant>,
    admitted: Admitted,
) -> Result<Output, Fault> {
    let name = model.name().to_owned();
    context.record_submission(&name);
    check(&name, &pipeline.plan.signature, &infer)?;
    check_rows(&pipeline, &infer.inputs)?;
    let items = infer.items();
    // The slot of its text is free before it waits; its body's memory is not.
    let held: Vec<Box<dyn Any + Send>> = admitted.into_held();
    let asked = Instant::now();
    let turn = models.core().pipelines.enter(context.owner(), deadline, None).await?;
    let began = Instant::now();
    let version = model.version.clone();
    // Nothing is held while the parts are waited for. The pipeline itself is there as long as it runs.
    drop(model);
    let running = async {
        let parts = within(deadline, models.registry().acquire_all(&pipeline.parts)).await?;
        parts.iter().map(Lease::waited).max().into_iter().for_each(|waited| context.add_model_wait(waited));
        let mut run = Run {
            models,
            name: name.clone(),
            pipeline: &pipeline,
            context: &context,
            deadline,
            parts,
            tensors: infer.inputs.into_iter().map(|input| (input.name.clone(), input)).collect(),
            labels: HashMap::new(),
        };
        let outputs = run.all(&infer.outputs).await?;
        Ok((outputs, run.labels))
    };
    let outcome = running.await;
    drop((turn, held));
    // The parts have told of themselves meanwhile.
    context.record_submission(&name);
    let (outcome, labels) = match outcome {
        Ok((outputs, labels)) => (Ok(outputs), labels),
        Err(fault) => (Err(fault), HashMap::new()),
    };
    let ended = Ended { items, queued: began - asked, computed: began.elapsed() };
    record(&models.core().metrics.model(&name), &context, &outcome, &ended);
    let outputs = outcome?;
    let own = |output: &Tensor| pipeline.labels.get(&output.name).or(labels.get(&output.name)).cloned();
    let labels = outputs.iter().filter_map(|output| Some((output.name.clone(), own(output)?))).collect();
    Ok(Output::Tensors(Inferred { model: name, version, outputs, labels }))
}

fn check_rows(pipeline: &Pipeline, inputs: &[Tensor]) -> Result<(), Fault> {
    let most = pipeline.plan.definition.max_batch_size;
    let too_many = inputs.iter().find(|input| input.shape.first().is_some_and(|rows| *rows > most));
    match too_many.filter(|_| most > 0) {
        None => Ok(()),
        Some(input) => {
            let message =
                format!("the input {} has too many rows; at most {most} are allowed", input.described());
            Err(Fault::field(input.name.clone(), message))
        }
    }
}

/// The outcome, unless the request's time is over first.
async fn within<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    match deadline {
        None => work.await,
        Some(deadline) => {
            tokio::time::timeout_at(deadline.into(), work).await.unwrap_or_else(|_| Err(expired()))
        }
    }
}

impl Run<'_> {
    /// Runs the steps that these outputs need, all if there are none, and gives them in this order.
    async fn all(&mut self, wanted: &[String]) -> Result<Vec<Tensor>, Fault> {
        let steps = self.pipeline.plan.needed(wanted);
        let definition = &self.pipeline.plan.definition;
        let all: Vec<String> = definition.outputs.iter().map(|port| port.name.clone()).collect();
        let wanted = if wanted.is_empty() { &all[..] } else { wanted };
        for (done, at) in steps.iter().enumerate() {
            let step = &definition.steps[*at];
            let outputs = self.step(step).await.map_err(|fault| self.of_step(step, fault))?;
            for (name, mut tensor) in step.outputs.iter().zip(outputs) {
                check_output(&tensor).map_err(|why| self.of_step(step, Fault::field("outputs", why)))?;
                tensor.name.clone_from(name);
                self.tensors.insert(name.clone(), tensor);
            }
            // What nobody takes any more.
            let is_taken = |name: &String| {
                wanted.contains(name)
                    || steps[done + 1..].iter().any(|at| definition.steps[*at].inputs.contains(name))
            };
            self.tensors.retain(|name, _| is_taken(name));
            let held: usize = self.tensors.values().map(Tensor::byte_size).sum();
            if held > HELD_BYTES {
                let message =
                    format!("the tensors between steps take {held} bytes; the limit is {HELD_BYTES}");
                return Err(self.of_step(step, Fault::field("inputs", message)));
            }
        }
        let output = |name: &String| {
            let missing = || Fault::internal(format!("the pipeline {} did not make {name}", self.name));
            self.tensors.get(name).cloned().ok_or_else(missing)
        };
        wanted.iter().map(output).collect()
    }

    /// A fault that says in which step it came up.
    fn of_step(&self, step: &Node, fault: Fault) -> Fault {
        let message = format!("the step {} of {}: {}", step.name, self.name, fault.message);
        Fault { message, ..fault }
    }

    async fn step(&mut self, step: &Node) -> Result<Vec<Tensor>, Fault> {
        let input = |name: &String| {
            let missing = || Fault::internal(format!("the tensor {name} is not there"));
            self.tensors.get(name).cloned().ok_or_else(missing)
        };
        let inputs = step.inputs.iter().map(input).collect::<Result<Vec<_>, _>>()?;
        let part = part_of(&step.work).and_then(|part| {
            let place = self.pipeline.parts.iter().position(|name| *name == part)?;
            Some(self.parts[place].another())
        });
        match (&step.work, part) {
            (Work::Own(operation), _) => {
                let operation = operation.clone();
                let work = move |stop: &(dyn Fn() -> bool + Sync)| {
                    let inputs: Vec<&Tensor> = inputs.iter().collect();
                    operation.run(&inputs, stop).map_err(|why| Fault::field("inputs", why))
                };
                self.compute(work).await
            }
            (Work::Model { inputs: names, outputs, .. }, Some(lease)) => {
                let renamed =
                    names.iter().zip(inputs).map(|(name, tensor)| Tensor { name: name.clone(), ..tensor });
                let infer = Infer {
                    model: None,
                    inputs: renamed.collect(),
                    outputs: outputs.clone(),
                    parameters: Parameters::default(),
                };
                self.model(lease, infer, step).await
            }
            (Work::Tokenize { max_tokens, truncate, outputs, .. }, Some(lease)) => {
                let Some(encoding) = lease.encoding().cloned() else {
                    return Err(lease.unable("tokenize texts"));
                };
                let (max_tokens, truncate, outputs) = (*max_tokens, *truncate, outputs.clone());
                let (context, model) = (self.context.clone(), lease.name().to_owned());
                let admitted = self.models.admit().await?;
                let work = move |_: &mut Admitted, stop: Stop| {
                    let _lease = lease;
                    let reader = Reader { encoding, model, stop, context };
                    tokenize(&reader, &inputs, max_tokens, truncate, &outputs)
                };
                within(self.deadline, admitted.run(work)).await.map(|(_, tensors)| tensors)
            }
            (_, None) => Err(Fault::internal("a step has no model")),
        }
    }

    /// Asks a model.
    async fn model(&mut self, lease: Lease, infer: Infer, step: &Node) -> Result<Vec<Tensor>, Fault> {
        let time_limit = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if time_limit.is_some_and(|left| left == Duration::ZERO) {
            return Err(expired());
        }
        // A pipeline is no part of one, so this goes one level deep.
        let request =
            Request { operation: Operation::Infer(infer), context: self.context.clone(), time_limit };
        let answered = self.models.ask(lease, request).await?;
        let Output::Tensors(inferred) = answered else {
            return Err(Fault::internal("tensors were asked for, and something else came"));
        };
        let Work::Model { outputs, .. } = &step.work else { return Ok(inferred.outputs) };
        for (name, labels) in inferred.labels {
            if let Some(at) = outputs.iter().position(|output| *output == name) {
                self.labels.insert(step.outputs[at].clone(), labels);
            }
        }
        Ok(inferred.outputs)
    }

    /// Computes on a thread that may block.
    async fn compute(
        &self,
        work: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, Fault> + Send + 'static,
    ) -> Result<Vec<Tensor>, Fault> {
        let slot = self.models.core().tensors.enter(self.context.owner(), self.deadline, None).await?;
        let (stop, _leaving) = Stop::new();
        let deadline = self.deadline;
        let working = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            let is_over = || stop.is_set() || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if is_over() {
                return Err(left());
            }
            work(&is_over)
        });
        let outcome = within(self.deadline, async {
            match working.await {
                Ok(outcome) => outcome,
                Err(failed) if failed.is_panic() => {
                    Err(Fault::internal("it failed on this request; the server's log has the reason"))
                }
                Err(_) => Err(Fault::unavailable("draining", "the server is shutting down", 5)),
            }
        });
        let is_late = |deadline: Option<Instant>| deadline.is_some_and(|deadline| Instant::now() >= deadline);
        match outcome.await {
            // What ended because its time was over may have said so before the timer did.
            Err(_) if is_late(deadline) => Err(expired()),
            outcome => outcome,
        }
    }
}
