//! The metadata that a converter would write for a shape.

use super::{Recipe, Shape, vocabulary};
use crate::rope::long_mscale;
use weights::gguf::{Array, Metadata, Value};

impl Shape {
    /// The keys that a converter writes for this family, and a vocabulary.
    pub(super) fn metadata(&self, recipe: &Recipe) -> Metadata {
        let mut keys = Metadata::default();
        let mut general = |key: &str, value| keys.insert(format!("general.{key}"), value);
        general("architecture", Value::String(self.family.clone()));
        general("name", Value::String(format!("{}, random weights", self.title)));
        general("file_type", Value::U32(recipe.file_type));
        general("quantization_version", Value::U32(2));
        let mut own = |key: &str, value| {
            keys.insert(format!("{}.{key}", self.family), value);
        };
        // First: what is there already is not changed.
        for (key, value) in &self.keys {
            own(key, value.written(self.layers));
        }
        let eps = if self.layer_norm { "layer_norm_epsilon" } else { "layer_norm_rms_epsilon" };
        for (key, size) in [
            ("block_count", self.layers),
            ("context_length", self.context),
            ("embedding_length", self.width),
            ("feed_forward_length", self.feed),
            ("vocab_size", self.vocab),
            ("attention.head_count", self.heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("rope.dimension_count", self.rotary_dim()),
        ] {
            own(key, Value::U32(size as u32));
        }
        own("attention.head_count_kv", self.kv_heads_value());
        own(&format!("attention.{eps}"), Value::F32(self.eps));
        own("rope.freq_base", Value::F32(self.rope_base));
        if let Some(window) = self.window {
            own("attention.sliding_window", Value::U32(window as u32));
        }
        for (key, size) in self.expert_keys().into_iter().chain(self.recurrent_keys()) {
            own(key, Value::U32(size as u32));
        }
        self.rope_keys(&mut own);
        vocabulary::put(&mut keys, self.vocab);
        keys
    }

    /// The keys of scaled rope.
    fn rope_keys(&self, own: &mut dyn FnMut(&str, Value)) {
        if let Some(yarn) = &self.rope_yarn {
            own("rope.scaling.type", Value::String("yarn".to_owned()));
            own("rope.scaling.factor", Value::F32(yarn.factor));
            own("rope.scaling.original_context_length", Value::U32(yarn.original as u32));
        }
        if let Some(factor) = self.rope_linear {
            own("rope.scaling.type", Value::String("linear".to_owned()));
            own("rope.scaling.factor", Value::F32(factor));
        }
        if let Some(long) = &self.rope_long {
            let stretch = self.context as f64 / long.original as f64;
            own("rope.scaling.original_context_length", Value::U32(long.original as u32));
            own("rope.scaling.attn_factor", Value::F32(long_mscale(stretch, long.original)));
        }
    }

    /// The keys of recurrent layers.
    fn recurrent_keys(&self) -> Vec<(&'static str, usize)> {
        let conv = self.short_conv.as_ref().map(|conv| ("shortconv.l_cache", conv.kernel));
        let net = self.delta_net.as_ref().map(|net| {
            [
                ("full_attention_interval", net.interval),
                ("ssm.group_count", net.key_heads),
                ("ssm.time_step_rank", net.value_heads),
                ("ssm.state_size", net.head_dim),
                ("ssm.inner_size", net.value_heads * net.head_dim),
                ("ssm.conv_kernel", net.kernel),
            ]
        });
        let mamba2 = self.mamba2.as_ref().map(|net| {
            [
                ("ssm.group_count", net.groups),
                ("ssm.time_step_rank", net.heads),
                ("ssm.state_size", net.state),
                ("ssm.inner_size", net.heads * net.head_dim),
                ("ssm.conv_kernel", net.kernel),
            ]
        });
        conv.into_iter().chain(net.into_iter().flatten()).chain(mamba2.into_iter().flatten()).collect()
    }

    /// The KV heads: a list of those of each layer where some have none.
    fn kv_heads_value(&self) -> Value {
        let of_conv = self.short_conv.as_ref().map(|conv| &conv.attention);
        let Some(attention) = of_conv.or(self.mamba2.as_ref().map(|net| &net.attention)) else {
            return Value::U32(self.kv_heads as u32);
        };
        let heads = |layer| if attention.contains(&layer) { self.kv_heads as u32 } else { 0 };
        Value::Array(Array::U32((0..self.layers).map(heads).collect()))
    }

    /// The keys of a mixture that a converter writes.
    fn expert_keys(&self) -> Vec<(&'static str, usize)> {
        let Some(experts) = &self.experts else { return Vec::new() };
        let keys = [
            ("expert_count", experts.count),
            ("expert_used_count", experts.used),
            ("expert_feed_forward_length", experts.width),
            ("expert_shared_feed_forward_length", experts.shared),
            ("leading_dense_block_count", experts.dense_layers),
        ];
        keys.into_iter().filter(|(_, size)| *size > 0).collect()
    }
}
