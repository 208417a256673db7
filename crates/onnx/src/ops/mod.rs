//! The operators: a row of [`TABLE`] each, made by a function of their family's file.

mod broadcast;
mod cast;
mod elementwise;
mod encode;
mod labels;
mod linear;
mod maps;
mod matrix;
mod numbers;
mod reduce;
mod scale;
mod shape;
mod sort;
mod svm;
mod transform;
mod tree_attributes;
mod trees;

use crate::error::NodeLabel;
use crate::graph::{CORE, ML};
use crate::operator::Make;

/// Domain, operator, first version whose meaning is computed here, last one, constructor.
type Row = (&'static str, &'static str, i64, i64, Make);

/// The last version of the default domain that was looked at.
const CORE_LAST: i64 = 28;
/// The last version of `ai.onnx.ml` that was looked at.
const ML_LAST: i64 = 5;

/// A row of an operator that means the same in all versions, or whose constructor looks at the version.
const fn core(name: &'static str, make: Make) -> Row {
    (CORE, name, 1, CORE_LAST, make)
}

const fn ml(name: &'static str, make: Make) -> Row {
    (ML, name, 1, ML_LAST, make)
}

/// Every operator. A new one needs a row.
const TABLE: &[Row] = &[
    // Trees, linear models, support vectors.
    ml("TreeEnsembleClassifier", trees::classifier),
    ml("TreeEnsembleRegressor", trees::regressor),
    ml("TreeEnsemble", trees::ensemble),
    ml("LinearClassifier", linear::classifier),
    ml("LinearRegressor", linear::regressor),
    ml("SVMClassifier", svm::classifier),
    ml("SVMRegressor", svm::regressor),
    // Preparation of features.
    ml("Scaler", scale::scaler),
    ml("Normalizer", scale::normalizer),
    ml("Binarizer", scale::binarizer),
    ml("Imputer", scale::imputer),
    ml("LabelEncoder", encode::label_encoder),
    ml("OneHotEncoder", encode::one_hot),
    ml("CategoryMapper", encode::category_mapper),
    ml("ArrayFeatureExtractor", maps::array_feature_extractor),
    ml("FeatureVectorizer", maps::feature_vectorizer),
    ml("DictVectorizer", maps::dict_vectorizer),
    ml("CastMap", maps::cast_map),
    ml("ZipMap", maps::zip_map),
    // Elementwise.
    core("Abs", elementwise::abs),
    core("Neg", elementwise::neg),
    core("Sign", elementwise::sign),
    core("Exp", elementwise::exp),
    core("Log", elementwise::log),
    core("Sqrt", elementwise::sqrt),
    core("Reciprocal", elementwise::reciprocal),
    core("Floor", elementwise::floor),
    core("Ceil", elementwise::ceil),
    core("Sigmoid", elementwise::sigmoid),
    core("Tanh", elementwise::tanh),
    core("Relu", elementwise::relu),
    core("IsNaN", elementwise::is_nan),
    core("Not", elementwise::not),
    core("Clip", elementwise::clip),
    core("Add", elementwise::add),
    core("Sub", elementwise::sub),
    core("Mul", elementwise::mul),
    core("Div", elementwise::div),
    core("Pow", elementwise::pow),
    core("Mod", elementwise::modulo),
    core("Sum", elementwise::sum),
    core("Max", elementwise::max),
    core("Min", elementwise::min),
    core("Mean", elementwise::mean),
    core("Equal", elementwise::equal),
    core("Less", elementwise::less),
    core("LessOrEqual", elementwise::less_or_equal),
    core("Greater", elementwise::greater),
    core("GreaterOrEqual", elementwise::greater_or_equal),
    core("And", elementwise::and),
    core("Or", elementwise::or),
    core("Xor", elementwise::xor),
    core("Where", elementwise::select),
    core("Cast", cast::cast),
    core("CastLike", cast::cast_like),
    // Products and reductions.
    core("MatMul", matrix::matmul),
    core("Gemm", matrix::gemm),
    core("ReduceSum", reduce::sum),
    core("ReduceMean", reduce::mean),
    core("ReduceMax", reduce::max),
    core("ReduceMin", reduce::min),
    core("ReduceProd", reduce::prod),
    core("ReduceL1", reduce::l1),
    core("ReduceL2", reduce::l2),
    core("ReduceSumSquare", reduce::sum_square),
    core("ReduceLogSumExp", reduce::log_sum_exp),
    core("ArgMax", reduce::arg_max),
    core("ArgMin", reduce::arg_min),
    core("Softmax", reduce::softmax),
    core("LogSoftmax", reduce::log_softmax),
    core("TopK", sort::top_k),
    // Shapes.
    core("Identity", shape::identity),
    core("Constant", shape::constant),
    core("ConstantOfShape", shape::constant_of_shape),
    core("Shape", shape::shape),
    core("Size", shape::size),
    core("Reshape", shape::reshape),
    core("Flatten", shape::flatten),
    core("Squeeze", shape::squeeze),
    core("Unsqueeze", shape::unsqueeze),
    core("Transpose", shape::transpose),
    core("Expand", shape::expand),
    core("Concat", shape::concat),
    core("Split", shape::split),
    core("Slice", shape::slice),
    core("Gather", shape::gather),
    core("GatherElements", shape::gather_elements),
];

/// The constructor of a node's operator, if it is supported in the version that the model imports.
pub(crate) fn find(label: &NodeLabel) -> Option<Make> {
    TABLE
        .iter()
        .find(|(domain, name, first, last, _)| {
            *domain == label.domain && *name == label.operator && (*first..=*last).contains(&label.version)
        })
        .map(|row| row.4)
}
