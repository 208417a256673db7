//! Styles with parameters in tags.

use super::marked::Marks;
use super::reader::{CallForm, Frame, FramePart, Row, Tags};
use super::tagged::reader;

const LINE: FramePart = FramePart::Text("\n");

const QWEN_TAGS: Tags = Tags {
    name_open: "<function=",
    name_close: ">",
    key_open: "<parameter=",
    key_close: ">",
    value_open: "",
    value_close: "</parameter>",
    end: "</function>",
    on_lines: true,
    cdata_close: "",
};
const QWEN_MARKS: Marks =
    Marks { opens: &["<tool_call>", "<function="], closes: &["</tool_call>"], drops: &[] };
/// `<tool_call>\n<function=name>\n<parameter=key>\nvalue\n</parameter>\n</function>\n</tool_call>`: Qwen3-Coder and
/// Qwen3.5, which forget the outer tag at times; Nemotron 3, Step 3.5.
pub(super) const QWEN: Row = Row {
    marks: &["<tool_call>", "</tool_call>"],
    frame: Frame {
        first: &[FramePart::Mark("<tool_call>"), LINE],
        between: Some(&[LINE, FramePart::Mark("</tool_call>"), LINE, FramePart::Mark("<tool_call>"), LINE]),
        last: &[LINE, FramePart::Mark("</tool_call>")],
        form: CallForm::Tagged(&QWEN_TAGS),
    },
    reader: |offered| reader(&QWEN_MARKS, &QWEN_TAGS, offered.schemas),
};

const SEED_TAGS: Tags = Tags { on_lines: false, ..QWEN_TAGS };
const SEED_MARKS: Marks = Marks { opens: &["<seed:tool_call>"], closes: &["</seed:tool_call>"], drops: &[] };
/// `<seed:tool_call>\n<function=name>\n<parameter=key>value</parameter>\n</function>\n</seed:tool_call>`: Seed-OSS.
pub(super) const SEED: Row = Row {
    marks: &["<seed:tool_call>", "</seed:tool_call>"],
    frame: Frame {
        first: &[FramePart::Mark("<seed:tool_call>"), LINE],
        between: Some(&[
            LINE,
            FramePart::Mark("</seed:tool_call>"),
            LINE,
            FramePart::Mark("<seed:tool_call>"),
            LINE,
        ]),
        last: &[LINE, FramePart::Mark("</seed:tool_call>")],
        form: CallForm::Tagged(&SEED_TAGS),
    },
    reader: |offered| reader(&SEED_MARKS, &SEED_TAGS, offered.schemas),
};

const GLM_TAGS: Tags = Tags {
    name_open: "",
    name_close: "",
    key_open: "<arg_key>",
    key_close: "</arg_key>",
    value_open: "<arg_value>",
    value_close: "</arg_value>",
    end: "</tool_call>",
    on_lines: false,
    cdata_close: "",
};
const GLM_MARKS: Marks = Marks { opens: &["<tool_call>"], closes: &[], drops: &[] };
/// `<tool_call>name\n<arg_key>key</arg_key>\n<arg_value>value</arg_value>\n</tool_call>`: GLM 4.5 and later, Ling 3,
/// Laguna, Spark.
pub(super) const GLM: Row = Row {
    marks: &["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    frame: Frame {
        first: &[FramePart::Mark("<tool_call>")],
        between: Some(&[LINE, FramePart::Mark("<tool_call>")]),
        last: &[],
        form: CallForm::Tagged(&GLM_TAGS),
    },
    reader: |offered| reader(&GLM_MARKS, &GLM_TAGS, offered.schemas),
};

const HY_TAGS: Tags = Tags {
    name_open: "",
    name_close: "<tool_sep:opensource>",
    key_open: "<arg_key:opensource>",
    key_close: "</arg_key:opensource>",
    value_open: "<arg_value:opensource>",
    value_close: "</arg_value:opensource>",
    end: "</tool_call:opensource>",
    on_lines: false,
    cdata_close: "",
};
const HY_MARKS: Marks = Marks {
    opens: &["<tool_call:opensource>"],
    closes: &[],
    drops: &["<tool_calls:opensource>", "</tool_calls:opensource>"],
};
/// As GLM's, each tag with a suffix, in a section: Hunyuan 3.
pub(super) const HY: Row = Row {
    marks: &[
        "<tool_calls:opensource>",
        "</tool_calls:opensource>",
        "<tool_call:opensource>",
        "</tool_call:opensource>",
        "<tool_sep:opensource>",
        "<arg_key:opensource>",
        "</arg_key:opensource>",
        "<arg_value:opensource>",
        "</arg_value:opensource>",
    ],
    frame: Frame {
        first: &[FramePart::Mark("<tool_calls:opensource>"), LINE, FramePart::Mark("<tool_call:opensource>")],
        between: Some(&[LINE, FramePart::Mark("<tool_call:opensource>")]),
        last: &[LINE, FramePart::Mark("</tool_calls:opensource>")],
        form: CallForm::Tagged(&HY_TAGS),
    },
    reader: |offered| reader(&HY_MARKS, &HY_TAGS, offered.schemas),
};

const MINIMAX_TAGS: Tags = Tags {
    name_open: "<invoke name=\"",
    name_close: "\">",
    key_open: "<parameter name=\"",
    key_close: "\">",
    value_open: "",
    value_close: "</parameter>",
    end: "</invoke>",
    on_lines: false,
    cdata_close: "",
};
const MINIMAX_MARKS: Marks = Marks {
    opens: &["<invoke name=\""],
    closes: &[],
    drops: &["<minimax:tool_call>", "</minimax:tool_call>"],
};
/// `<minimax:tool_call>\n<invoke name="name">\n<parameter name="key">value</parameter>\n</invoke>\n</minimax:tool_call>`:
/// MiniMax M2.
pub(super) const MINIMAX: Row = Row {
    marks: &["<minimax:tool_call>", "</minimax:tool_call>"],
    frame: Frame {
        first: &[FramePart::Mark("<minimax:tool_call>"), LINE],
        between: Some(&[LINE]),
        last: &[LINE, FramePart::Mark("</minimax:tool_call>")],
        form: CallForm::Tagged(&MINIMAX_TAGS),
    },
    reader: |offered| reader(&MINIMAX_MARKS, &MINIMAX_TAGS, offered.schemas),
};

const DSML_TAGS: Tags = Tags {
    name_open: "<｜DSML｜invoke name=\"",
    name_close: "\">",
    key_open: "<｜DSML｜parameter name=\"",
    key_close: "\">",
    value_open: "",
    value_close: "</｜DSML｜parameter>",
    end: "</｜DSML｜invoke>",
    on_lines: false,
    cdata_close: "",
};
const DSML_MARKS: Marks = Marks {
    opens: &["<｜DSML｜invoke name=\""],
    closes: &[],
    drops: &[
        "<｜DSML｜function_calls>",
        "</｜DSML｜function_calls>",
        "<｜DSML｜tool_calls>",
        "</｜DSML｜tool_calls>",
    ],
};
/// `<｜DSML｜function_calls>\n<｜DSML｜invoke name="name">\n<｜DSML｜parameter name="key" string="true">value…`: DeepSeek
/// V3.2; V4 names the section `tool_calls`.
pub(super) const DSML: Row = Row {
    marks: &["｜DSML｜"],
    frame: Frame {
        first: &[FramePart::Text("<｜DSML｜function_calls>\n")],
        between: Some(&[LINE]),
        last: &[FramePart::Text("\n</｜DSML｜function_calls>")],
        form: CallForm::Tagged(&DSML_TAGS),
    },
    reader: |offered| reader(&DSML_MARKS, &DSML_TAGS, offered.schemas),
};

const MINICPM_TAGS: Tags = Tags {
    name_open: "<function name=\"",
    name_close: "\">",
    key_open: "<param name=\"",
    key_close: "\">",
    value_open: "",
    value_close: "</param>",
    end: "</function>",
    on_lines: false,
    cdata_close: "]]></param>",
};
const MINICPM_MARKS: Marks = Marks { opens: &["<function name=\""], closes: &[], drops: &[] };
/// `<function name="name"><param name="key">value</param></function>`: MiniCPM 5.
pub(super) const MINICPM: Row = Row {
    marks: &["<function", "</function>", "<param", "</param>"],
    frame: Frame { first: &[], between: Some(&[LINE]), last: &[], form: CallForm::Tagged(&MINICPM_TAGS) },
    reader: |offered| reader(&MINICPM_MARKS, &MINICPM_TAGS, offered.schemas),
};

const MUSE_TAGS: Tags = Tags {
    name_open: "<atem:invoke name=\"",
    name_close: "\">",
    key_open: "<atem:parameter name=\"",
    key_close: "\">",
    value_open: "",
    value_close: "</atem:parameter>",
    end: "</atem:invoke>",
    on_lines: false,
    cdata_close: "",
};
const MUSE_MARKS: Marks = Marks {
    opens: &["<atem:invoke name=\""],
    closes: &[],
    drops: &["<atem:function_calls>", "</atem:function_calls>"],
};
/// `<atem:function_calls>\n<atem:invoke name="name">\n<atem:parameter name="key">value</atem:parameter>…`, in a message of
/// its own: Muse Glimmer.
pub(super) const MUSE: Row = Row {
    marks: &["<atem:function_calls>", "</atem:function_calls>"],
    frame: Frame {
        first: &[FramePart::Text("<atem:function_calls>\n")],
        between: Some(&[LINE]),
        last: &[FramePart::Text("\n</atem:function_calls>")],
        form: CallForm::Tagged(&MUSE_TAGS),
    },
    reader: |offered| reader(&MUSE_MARKS, &MUSE_TAGS, offered.schemas),
};
