//! The table of supported families. A family is a row here, a file in this directory, and a test fixture.

mod bert;
mod deberta;
mod distilbert;
mod ernie4_5_moe;
mod gemma2;
mod gemma3;
mod gemma;
mod gemma_embedding;
mod gpt_oss;
mod granite;
mod granitemoe;
mod gte;
mod jina_bert;
mod jina_v3;
mod keys;
mod llama;
mod mixtral;
mod modernbert;
mod mpnet;
mod nomic_bert;
mod phi2;
mod phi3;
mod qwen2;
mod qwen2moe;
mod qwen35;
mod qwen3;
mod qwen3moe;
mod roberta;
mod roberta_heads;
mod tests {
    use super::*;

    #[test]
    fn no_name_belongs_to_two_families() {
        let mut names: Vec<&str> = FAMILIES.iter().flat_map(|f| f.hugging_face).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
