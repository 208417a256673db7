//! Rule: every input that once caused a wrong answer, a needless refusal or a crash has regression tests, as listed in
//! the table. A row whose test is missing fails.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The faults found, with their regression tests.
const TABLE: &[(&str, &[&str])] = &[
    // Wrong answers and lost texts.
    (
        "a chat template that wants content as parts loses the user's text",
        &[
            "fault_01_a_template_that_loses_what_users_say_is_refused",
            "fault_01_each_role_gets_its_own_form",
            "fault_01_templates_that_want_parts_get_parts",
            "fault_01_two_questions_never_give_the_same_prompt",
        ],
    ),
    (
        "a GGUF whose chat template is a name",
        &[
            "fault_01_a_name_in_place_of_a_template_is_looked_up",
            "fault_01_named_formats_are_those_of_llama_cpp",
        ],
    ),
    (
        "a prompt that cannot fit is tokenized whole",
        &[
            "fault_02_a_short_request_does_not_wait_for_long_ones",
            "abuse_a2_a_prompt_that_cannot_fit_is_refused_with_a_count",
            "abuse_a2_words_are_what_the_library_makes_of_the_whole_text",
        ],
    ),
    (
        "weights of integers or F64",
        &[
            "fault_03_a_norm_of_i32_is_a_load_error",
            "fault_03_an_up_projection_of_i16_is_a_load_error",
            "fault_03_every_ggml_type_of_every_tensor_is_loaded_or_named",
            "fault_03_every_safetensors_type_of_every_tensor_is_loaded_or_named",
            "fault_03_every_tensor_of_a_wrong_type_is_told_by_inspect_and_check",
            "fault_03_tensors_that_nothing_reads_may_be_of_any_type",
        ],
    ),
    (
        "a head of an unsupported type is replaced by the embedding",
        &[
            "fault_03_a_head_of_integers_is_a_load_error",
            "fault_03_a_head_that_cannot_be_computed_with_is_not_replaced_by_the_embedding",
        ],
    ),
    (
        "a template that takes all memory",
        &[
            "fault_04_texts_that_double",
            "fault_04_lists_and_maps_that_double",
            "fault_04_blocks_that_collect",
            "fault_04_counts_that_are_huge",
            "fault_04_long_texts_looked_at_often",
            "fault_04_values_that_hold_themselves_twice",
        ],
    ),
    (
        "options that change the answer are dropped",
        &["fault_05_options_that_change_the_answer_are_never_dropped"],
    ),
    ("a const of 23 digits", &["fault_06_a_long_number_is_given_back_digit_by_digit"]),
    ("an invalid regex is changed", &["fault_06_an_expression_that_is_none_is_refused"]),
    ("digits of other scripts match \\d", &["fault_06_digits_of_an_expression_are_ascii"]),
    ("plan fit with a shape of the catalog", &["fault_07_a_shape_is_named_where_a_model_is"]),
    // Clients that stopped.
    (
        "Claude Code: a system message in the middle",
        &[
            "fault_08_a_system_message_in_the_middle_is_honoured",
            "fault_08_roles_that_do_not_take_turns_are_joined",
            "fault_08_system_messages_in_the_middle_are_kept",
            "fault_08_what_another_server_runs_is_left_out_with_a_warning",
        ],
    ),
    (
        "Codex: tools of type namespace, custom, local_shell and web_search",
        &[
            "fault_09_a_namespace_is_flattened_and_a_hosted_tool_left_out",
            "fault_09_a_hosted_tool_that_is_forced_is_refused",
            "fault_09_custom_tools_and_shells_are_functions",
            "fault_09_calls_come_back_as_what_the_request_has",
        ],
    ),
    (
        "GET /v1/responses/ID/input_items",
        &["fault_09_input_items_are_of_the_api", "fault_09_input_items_come_in_pages"],
    ),
    ("tool_choice required with response_format", &["fault_10_a_call_that_must_come_goes_with_a_format"]),
    ("model names of other clients", &["fault_11_names_that_mean_the_model"]),
    (
        "TGI's and llama.cpp's shapes",
        &[
            "fault_12_a_completion_of_llama_cpp_is_read",
            "fault_12_llama_cpp_answers_whole_and_streamed",
            "fault_12_requests_of_tgi_are_read",
            "fault_12_tgi_answers_whole",
            "fault_12_tgi_answers_as_a_stream",
            "fault_12_the_short_form_answers_a_text",
        ],
    ),
    (
        "a call in bare or fenced JSON",
        &[
            "fault_13_a_call_in_bare_or_fenced_json_is_a_call",
            "fault_13_a_fenced_call_is_a_call_whole_and_streamed",
            "fault_13_what_is_no_call_stays_content",
        ],
    ),
    ("strict schemas get extra keys", &["fault_14_strict_closes_objects_at_any_depth"]),
    ("runs of whitespace in constrained JSON", &["fault_14_no_runs_of_space"]),
    ("browser clients", &["fault_15_pages_of_other_origins_need_leave"]),
    (
        "enable_thinking as a text",
        &["fault_15_a_boolean_in_quotes_is_refused", "fault_15_the_text_false_is_no_for_a_switch"],
    ),
    // Schemas that libraries write.
    (
        "propertyNames, pointers with escapes, formats, bounds, look-ahead, tags with defaults",
        &["fault_schemas_that_libraries_write", "what_libraries_write_is_honoured"],
    ),
    (
        "hundreds of optional properties",
        &[
            "fault_schemas_of_hundreds_of_optional_properties_compile",
            "fault_schemas_of_forty_objects_of_twenty_optional_keys_compile",
        ],
    ),
    ("a schema that can never end", &["fault_schemas_that_nothing_meets_are_refused_with_the_reason"]),
    // Errors that did not name their cause.
    (
        "a body in gzip",
        &[
            "said_badly_a_compressed_body_is_read",
            "said_badly_a_gzip_body_is_read",
            "said_badly_what_is_no_json_is_named",
        ],
    ),
    ("Rust debug text in messages", &["wrong_values_are_named_or_mean_the_same"]),
    (
        "Git LFS pointers, adapters alone, web pages, PyTorch files, single files of a folder",
        &[
            "said_badly_what_is_no_model_is_named_with_the_way_out",
            "said_badly_a_file_that_is_no_gguf_is_named_with_the_way_out",
            "said_badly_files_that_are_no_model_end_every_command_in_one_line",
            "said_badly_a_gguf_without_weights_is_a_vocabulary",
        ],
    ),
    ("a folder with tokenizer.model alone", &["said_badly_a_folder_with_only_tokenizer_model"]),
    ("quantized checkpoints", &["said_badly_quantized_checkpoints_name_their_method"]),
    ("a byte-order mark in a template", &["said_badly_a_byte_order_mark_is_no_part_of_the_prompt"]),
    ("hidden_act of a config", &["said_badly_hidden_act_is_honoured_or_refused_by_name"]),
    ("a GGUF without tokenizer.ggml.pre", &["said_badly_a_missing_pre_is_a_warning"]),
    ("an answer cut inside a character", &["said_badly_an_answer_cut_inside_a_character_ends_before_it"]),
    (
        "a call cut by max_tokens",
        &[
            "said_badly_a_cut_call_leaves_no_tag_in_the_content",
            "said_badly_a_call_cut_before_its_name_is_no_content",
        ],
    ),
    ("a tool named with an empty text", &["said_badly_a_tool_without_a_name_is_refused"]),
    ("the stop sequence that was met", &["docs_anthropic_is_told_the_stop_sequence"]),
    ("the limit on request heads", &["said_badly_the_limit_on_heads_is_the_documented_one"]),
    ("errors of the protocol without a body", &["said_badly_protocol_errors_have_a_body"]),
    (
        "clients that end their side after the request",
        &[
            "said_badly_a_side_that_ends_gets_its_answer",
            "said_badly_a_tls_client_that_ends_its_side_gets_its_answer",
        ],
    ),
    (
        "404 without a hint",
        &[
            "said_badly_a_path_without_v1_gives_a_hint",
            "said_badly_absent_paths_and_methods_give_hints",
            "said_badly_a_misspelled_field_is_told",
        ],
    ),
    // Abuse.
    (
        "A1: abandoned requests queue without bound",
        &[
            "abuse_a1_what_abandoned_requests_asked_for_is_not_done",
            "abuse_a1_a_key_has_its_one_place_until_the_work_has_stopped",
            "abuse_a1_a_long_word_is_given_up_when_its_client_leaves",
            "abuse_a1_a_drain_does_not_wait_for_work_that_goes_on",
        ],
    ),
    (
        "A2: huge texts on any route",
        &[
            "abuse_a2_a_text_beyond_the_limit_is_given_up_early",
            "abuse_a2_every_route_that_tokenizes_is_charged",
            "abuse_a2_many_values_are_refused_before_they_are_parsed",
        ],
    ),
    ("A3: memory of stored responses", &["abuse_a3_what_is_counted_is_what_is_held"]),
    (
        "A4: one key evicts other keys' responses",
        &["abuse_a4_equal_shares_hold_among_many_keys", "abuse_a4_one_key_evicts_its_own_responses"],
    ),
    ("A5: nested tojson", &["abuse_a5_json_of_json_of_json"]),
    (
        "A6: a resumed download mixes two files",
        &[
            "abuse_a6_a_resumed_download_never_mixes_two_files",
            "abuse_a6_a_date_that_is_left_out_of_a_range_is_no_other_file",
            "abuse_a6_a_range_with_more_bytes_than_it_declares_is_refused",
            "abuse_a6_a_redirect_to_a_file_is_refused",
        ],
    ),
    (
        "A7: tokenizer.json that grows or hangs",
        &[
            "abuse_a7_normalizers_that_grow_are_refused",
            "abuse_a7_pre_tokenizers_without_end_are_refused",
            "abuse_a7_what_stands_around_a_text_is_bounded",
        ],
    ),
    (
        "A8: slow bodies and slow readers",
        &[
            "abuse_a8_slow_bodies_do_not_shut_others_out",
            "abuse_a8_a_reader_that_takes_a_little_now_and_then_is_given_up",
            "abuse_a8_an_answer_counts_until_its_last_byte_is_taken",
        ],
    ),
    (
        "A9: signals",
        &["abuse_a9_signals_end_nothing_without_a_drain", "abuse_a9_without_files_sighup_says_so"],
    ),
    (
        "A9: few descriptors",
        &["abuse_a9_a_low_limit_is_said_and_held", "abuse_a9_a_low_limit_of_descriptors_is_said"],
    ),
    (
        "A9: key files that others write, devices, links",
        &[
            "abuse_a9_key_files_that_others_write_and_short_keys",
            "abuse_a9_who_may_write_it_is_named",
            "abuse_a9_a_device_is_no_small_file",
            "abuse_a9_devices_and_folders_are_no_files",
            "abuse_a9_links_and_pipes_are_not_written",
        ],
    ),
    (
        "A9: escapes that reach the terminal",
        &[
            "abuse_a9_names_do_not_reach_the_terminal_as_they_are",
            "abuse_a9_what_a_terminal_acts_on_is_escaped",
            "abuse_a9_json_stays_json",
        ],
    ),
    ("A9: headers of answers", &["abuse_a9_every_answer_has_the_security_headers"]),
    (
        "A9: odd Host headers and requests that two readers take differently",
        &[
            "abuse_a9_hosts_are_checked_in_every_form",
            "abuse_a9_odd_hosts_are_refused",
            "abuse_a9_nothing_is_smuggled",
            "abuse_a9_what_two_readers_take_differently_is_refused",
        ],
    ),
    // Docs.
    ("timeout of 0.001 s", &["docs_timeout_0_001_is_taken"]),
    ("an example of plan tco that runs", &["docs_the_example_of_plan_tco_runs"]),
    (
        "limits and ranges that the docs give",
        &[
            "fault_docs_limits_are_those_of_the_code",
            "fault_docs_ranges_of_sampling_are_those_of_the_api",
            "docs_every_documented_range_is_the_real_one",
        ],
    ),
    ("models that cannot run are listed without a word", &["docs_list_says_what_cannot_run_here"]),
    ("colour codes in a log file", &["docs_the_log_in_a_file_has_no_colours"]),
    ("a file is served as ./model.gguf", &["docs_a_file_is_served_under_a_clean_name"]),
    // Jobs, batches and webhooks.
    (
        "a worker that lost its job writes, or a job is run over and over",
        &[
            "fault_writes_of_another_epoch_are_fenced",
            "fault_a_lost_lease_is_an_attempt_and_the_third_is_the_last",
        ],
    ),
    (
        "a batch that is stuck while its files are written, or counts wrong",
        &[
            "fault_files_are_chosen_once",
            "fault_a_completed_batch_counts_its_lines",
            "fault_a_batch_whose_lines_all_failed_is_completed",
            "fault_all_lines_failed_is_completed_without_output",
        ],
    ),
    (
        "one bad line fails a batch",
        &[
            "fault_an_error_of_the_endpoint_is_a_response",
            "fault_a_stream_is_an_error_of_the_line_only",
            "abuse_each_bad_line_costs_one_error",
        ],
    ),
    (
        "a file of requests takes memory with its length",
        &[
            "fault_fifty_thousand_lines_take_no_more_memory_than_ten_thousand",
            "abuse_a_line_without_end_is_not_kept",
            "abuse_a_body_without_end_is_not_kept",
            "abuse_a_file_of_errors_ends_early",
            "abuse_a_file_is_bounded_while_it_is_read",
            "abuse_only_a_megabyte_is_looked_at",
            "abuse_a_beginning_is_bounded",
            "abuse_requests_beyond_the_bound_keep_their_order",
            "abuse_a_line_beyond_the_limit_is_not_kept",
            "abuse_a_line_beyond_the_limit_is_an_error_and_one_at_the_limit_is_asked",
            "abuse_a_quote_that_is_never_closed_takes_the_rest_in_bounded_memory",
            "abuse_a_header_of_many_columns_is_read",
        ],
    ),
    (
        "files of requests that are damaged or hostile",
        &[
            "abuse_deep_json_has_no_form",
            "abuse_deep_json_is_no_crash",
            "abuse_messages_show_little_of_the_line",
            "abuse_forms_that_are_none",
            "abuse_names_stay_names",
            "abuse_invalid_utf8_is_a_fault_that_names_the_byte",
            "abuse_a_table_that_is_cut_is_an_error",
            "abuse_a_journal_that_is_no_journal_is_an_error",
        ],
    ),
    (
        "a store of jobs that loses bodies, or fills the disk",
        &[
            "fault_a_shared_body_is_not_deleted_under_a_new_job",
            "abuse_a_full_disk_ends_the_run_and_loses_nothing",
            "abuse_streams_are_bounded_and_end_with_the_server",
        ],
    ),
    (
        "a webhook that leads inside",
        &[
            "abuse_addresses_that_are_not_public",
            "abuse_urls_that_are_not_taken",
            "abuse_endpoints_that_lead_inside_are_refused",
            "abuse_what_is_beside_the_allowed_is_not_taken",
            "abuse_a_host_that_is_allowed_by_name_does_not_open_the_metadata",
            "abuse_without_tls_each_address_must_be_allowed",
            "abuse_one_address_that_is_not_public_refuses_all",
            "abuse_a_name_that_changes_reaches_only_what_was_checked",
            "abuse_a_name_with_too_many_addresses_or_none",
            "abuse_redirects_are_not_followed",
            "abuse_no_text_is_taken_twice_for_different_hosts",
            "abuse_any_text_is_read_without_a_panic",
            "abuse_certificates_of_others_are_not_taken",
            "abuse_a_receiver_without_tls_gets_nothing",
        ],
    ),
    (
        "a receiver of webhooks that takes time, memory or the log",
        &[
            "abuse_a_receiver_that_is_silent_costs_its_time_and_no_more",
            "abuse_a_resolver_that_is_silent_costs_its_time_and_no_more",
            "abuse_only_the_beginning_of_a_huge_answer_is_read",
            "abuse_a_huge_head_is_no_answer",
            "abuse_answers_that_are_none",
            "abuse_errors_are_short_and_without_control_characters",
        ],
    ),
    (
        "messages of webhooks that are forged, and secrets that are moved",
        &[
            "abuse_messages_that_are_not_genuine",
            "abuse_messages_that_no_key_pair_signed",
            "abuse_sealed_secrets_cannot_be_moved_or_changed",
            "abuse_headers_cannot_be_split",
            "abuse_headers_of_the_caller_do_not_change_those_of_the_request",
        ],
    ),
    (
        "files of mixtures and of weights that others quantized whose parts do not fit",
        &[
            "abuse_a_router_that_names_more_experts_than_there_are_is_refused",
            "abuse_a_router_that_names_more_than_there_is_is_told_by_name_value_and_limit",
            "abuse_experts_of_unequal_shapes_are_named_with_both",
            "abuse_a_gguf_without_the_head_size_of_a_kind_is_refused_by_name",
            "abuse_a_gguf_without_the_keys_of_mamba_2_is_refused",
            "abuse_dimensions_of_mamba_2_that_do_not_fit_are_refused_with_their_limit",
            "abuse_layers_of_nemotron_h_that_do_not_add_up_are_refused",
            "abuse_widths_of_nothing_are_refused_by_name",
            "abuse_widths_out_of_range_are_refused_by_name_value_and_limit",
            "abuse_widths_of_latents_that_do_not_fit_are_refused_by_name_value_and_limit",
            "abuse_a_gguf_whose_widths_do_not_fit_is_refused_by_name_value_and_limit",
            "abuse_heads_that_the_projections_do_not_have_are_refused",
            "abuse_streams_that_cannot_be_are_refused_by_key_and_limit",
            "abuse_a_sparsity_of_another_length_or_beyond_its_range_is_refused_by_key",
            "abuse_missing_tensors_of_the_streams_are_named",
            "fault_an_older_gguf_with_one_tensor_of_keys_and_values_gives_the_same",
            "fault_keys_of_layers_that_read_earlier_ones_are_left_unread",
            "fault_layers_that_share_keys_with_none_are_refused",
            "abuse_blocks_of_mxfp4_without_their_exponents_are_refused",
            "abuse_a_scale_that_is_no_number_fails_the_load_by_name",
            "abuse_layers_that_lie_are_refused_by_tensor",
            "abuse_shapes_and_scales_of_packed_layers_are_checked",
        ],
    ),
    ("texts around a gap that hold the marks of gaps", &["abuse_marks_in_a_text_stay_text"]),
    (
        "a part of YaRN's factor taken for the whole: DeepSeek-R1-0528-Qwen3-8B",
        &["fault_a_part_of_the_yarn_factor_is_not_taken_for_the_whole"],
    ),
    (
        "hybrids that read the whole prompt again each turn: llama.cpp #20225, #21831, #24714",
        &["fault_a_turn_of_a_chat_computes_its_new_tokens_only"],
    ),
];

/// The names of all functions under a folder that follow `#[test]` or a `proptest!` test's attribute.
fn tests_under(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                tests_under(&path, found);
            }
            continue;
        }
        if path.extension().is_none_or(|ending| ending != "rs") {
            continue;
        }
        let mut after_attribute = false;
        for line in fs::read_to_string(&path).unwrap().lines() {
            let line = line.trim();
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                after_attribute = true;
            } else if let Some(name) = line.trim_start_matches("async ").strip_prefix("fn ")
                && std::mem::take(&mut after_attribute)
            {
                found.insert(name.split(['(', '<']).next().unwrap().to_owned());
            }
        }
    }
}

#[test]
fn every_fault_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut tests = BTreeSet::new();
    for folder in ["crates", "xtask"] {
        tests_under(&root.join(folder), &mut tests);
    }
    let gone: Vec<_> = TABLE
        .iter()
        .flat_map(|(fault, names)| names.iter().map(move |name| (fault, name)))
        .filter(|(_, name)| !tests.contains(**name))
        .collect();
    assert!(gone.is_empty(), "no such test: {gone:#?}");
    // A test that carries a fault's name belongs to a row.
    let listed: BTreeSet<_> = TABLE.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let unlisted: Vec<_> = tests
        .iter()
        .filter(|name| ["fault_", "abuse_", "said_badly_"].iter().any(|start| name.starts_with(start)))
        .filter(|name| !listed.contains(name.as_str()))
        .collect();
    assert!(unlisted.is_empty(), "in no row of this test's table: {unlisted:#?}");
}
