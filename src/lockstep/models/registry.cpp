#include "lockstep/models/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/mlp.h"

namespace lockstep {
namespace {

// Another name of "mlp", which says that its default shape is for NSL-KDD.
constexpr const char* kMlpKdd = "mlp-kdd";

struct Entry {
  ModelInfo info;
  std::vector<std::string> options;  // the ModelOptions that it supports
  std::function<std::shared_ptr<Model>(const ModelOptions&)> make;
};

std::shared_ptr<Model> make_mlp(const ModelOptions& options, MlpOptions mlp) {
  if (options.features) mlp.features = options.features;
  if (!options.hidden.empty()) mlp.hidden = options.hidden;
  if (options.num_labels) mlp.classes = options.num_labels;
  return std::make_shared<MlpImpl>(mlp);
}

std::shared_ptr<Model> make_convnet(const ModelOptions& options) {
  ConvNetOptions convnet;
  if (options.channels) convnet.channels = options.channels;
  if (options.side) convnet.side = options.side;
  if (options.num_labels) convnet.classes = options.num_labels;
  return std::make_shared<ConvNetImpl>(convnet);
}

std::shared_ptr<Model> make_bert(const ModelOptions& options, const std::string& size) {
  BertConfig config = bert_config_of_size(size);
  if (options.num_labels) config.head.set_num_labels(options.num_labels);
  if (options.vocab_size) config.vocab_size = options.vocab_size;
  if (options.max_positions) config.max_position_embeddings = options.max_positions;
  if (options.pad_token_id) config.pad_token_id = options.pad_token_id;
  if (options.dropout) config.hidden_dropout_prob = config.attention_probs_dropout_prob = *options.dropout;
  config.gradient_checkpointing = options.gradient_checkpointing;
  return std::make_shared<BertForSequenceClassificationImpl>(config);
}

std::shared_ptr<Model> make_gpt2(const ModelOptions& options, const std::string& name) {
  GPT2Config config = gpt2_config_of_name(name);
  if (options.vocab_size) config.vocab_size = options.vocab_size;
  if (options.max_positions) config.n_positions = options.max_positions;
  if (options.pad_token_id) config.pad_token_id = options.pad_token_id;
  if (options.dropout) config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = *options.dropout;
  config.gradient_checkpointing = options.gradient_checkpointing;
  return std::make_shared<GPT2LMHeadModelImpl>(config);
}

Entry gpt2_entry(const std::string& name, const std::string& layers_and_parameters) {
  return {{name, "GPT-2 that predicts the next token, " + layers_and_parameters},
          {"vocab_size", "max_positions", "pad_token_id", "dropout", "gradient_checkpointing"},
          [name](const ModelOptions& options) { return make_gpt2(options, name); }};
}

Entry bert_entry(const std::string& size, const std::string& layers_and_parameters) {
  return {{"bert-" + size, "BERT that classifies texts, " + layers_and_parameters},
          {"num_labels", "vocab_size", "max_positions", "pad_token_id", "dropout", "gradient_checkpointing"},
          [size](const ModelOptions& options) { return make_bert(options, size); }};
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {{"mlp", "4 hidden layers for NSL-KDD, 122-128-64-32-16-2, 0.03 M parameters"},
       {"num_labels", "features", "hidden"},
       [](const ModelOptions& options) { return make_mlp(options, {}); }},
      {{"mlp-wide", "4 hidden layers of 1602, 7.9 M parameters: 31.6 MB of gradients, for benchmarks"},
       {"num_labels", "features", "hidden"},
       [](const ModelOptions& options) {
         return make_mlp(options, {122, {1602, 1602, 1602, 1602}, 2});
       }},
      {{"convnet", "2 convolutions and a linear layer for 28x28 images, 0.03 M parameters"},
       {"num_labels", "channels", "side"},
       make_convnet},
      bert_entry("tiny", "2 layers of 128, 4.4 M parameters"),
      bert_entry("mini", "4 layers of 256, 11.2 M parameters"),
      bert_entry("small", "4 layers of 512, 28.8 M parameters"),
      bert_entry("base", "12 layers of 768, 109.5 M parameters"),
      gpt2_entry("gpt2", "12 layers of 768, 124.4 M parameters"),
      gpt2_entry("gpt2-tiny", "2 layers of 128, 7.0 M parameters"),
      gpt2_entry("gpt2-medium", "24 layers of 1024, 354.8 M parameters"),
      gpt2_entry("gpt2-large", "36 layers of 1280, 774.0 M parameters"),
  };
  return all;
}

void refuse_foreign_options(const Entry& entry, const ModelOptions& options) {
  const std::pair<const char*, bool> given[] = {{"num_labels", options.num_labels != 0},
                                                {"features", options.features != 0},
                                                {"hidden", !options.hidden.empty()},
                                                {"channels", options.channels != 0},
                                                {"side", options.side != 0},
                                                {"vocab_size", options.vocab_size != 0},
                                                {"max_positions", options.max_positions != 0},
                                                {"pad_token_id", options.pad_token_id.has_value()},
                                                {"dropout", options.dropout.has_value()},
                                                {"gradient_checkpointing", options.gradient_checkpointing}};
  for (const auto& [name, is_given] : given) {
    const bool is_known = std::find(entry.options.begin(), entry.options.end(), name) != entry.options.end();
    if (!is_given || is_known) continue;
    throw Error(fmt::format("model {} has no option \"{}\"", entry.info.name, name), "make_model",
                fmt::format("leave it out; its options are: {}", fmt::join(entry.options, ", ")));
  }
}

}  // namespace

const std::vector<ModelInfo>& registered_models() {
  static const std::vector<ModelInfo> infos = [] {
    std::vector<ModelInfo> list;
    for (const Entry& entry : entries()) list.push_back(entry.info);
    return list;
  }();
  return infos;
}

std::shared_ptr<Model> make_model(const std::string& given, const ModelOptions& options) {
  const std::string name = given == kMlpKdd ? "mlp" : given;
  std::vector<std::string> known;
  for (const Entry& entry : entries()) {
    if (entry.info.name == name) {
      refuse_foreign_options(entry, options);
      return entry.make(options);
    }
    known.push_back(entry.info.name);
  }
  // Without a suggestion: names that differ in few letters, as bert-large and bert-base, are other models.
  throw Error(fmt::format("there is no model named \"{}\"", name), "make_model",
              fmt::format("choose one of: {}", fmt::join(known, ", ")));
}

}  // namespace lockstep
