#include "lockstep/sentence/sentence_encoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/download_hint.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/models/encoder_models.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/sentence/sentence_folder.h"
#include "lockstep/tensor/numbered_field.h"

namespace lockstep {

/// The network below the pooling, of any family.
class SentenceEncoderImpl::Encoder {
 public:
  virtual ~Encoder() = default;
  virtual torch::nn::Module& module() = 0;
  /// [size, length, hidden_size]
  virtual at::Tensor forward(const TokenInputs& inputs, HiddenRows rows) = 0;
  virtual std::string config_json() const = 0;
  virtual std::int64_t hidden_size() const = 0;
  virtual std::int64_t max_positions() const = 0;
};

namespace {

constexpr const char* kPoolerPrefix = "pooler.";
constexpr double kLeastCount = 1e-9, kLeastLength = 1e-12;  // PyTorch's and sentence-transformers'

std::int64_t longest_text(const BertConfig& config) { return config.max_position_embeddings; }
template <typename Family>
std::int64_t longest_text(const EncoderConfig<Family>& config) {
  return config.max_positions();
}

template <typename Network>
class EncoderOf : public SentenceEncoderImpl::Encoder {
 public:
  explicit EncoderOf(std::shared_ptr<Network> network) : network_(std::move(network)) {}

  torch::nn::Module& module() override { return *network_; }
  at::Tensor forward(const TokenInputs& inputs, HiddenRows rows) override {
    return network_->forward(inputs, rows).last_hidden_state;
  }
  std::string config_json() const override { return network_->config().to_json(Network::kArchitecture); }
  std::int64_t hidden_size() const override { return network_->config().hidden_size; }
  std::int64_t max_positions() const override { return longest_text(network_->config()); }

 private:
  std::shared_ptr<Network> network_;
};

bool is_of_pooler(const std::string& name) { return name.rfind(kPoolerPrefix, 0) == 0; }

// The network without a pooler, with the weights of this one.
template <typename Network>
std::shared_ptr<Network> without_pooler(const Network& network) {
  auto bare = std::make_shared<Network>(network.config(), /*has_pooler=*/false, InitialWeights::Unset);
  const auto parameters = network.named_parameters();
  for (auto& parameter : bare->named_parameters()) parameter.value().set_data(parameters[parameter.key()]);
  const auto buffers = network.named_buffers();
  for (auto& buffer : bare->named_buffers()) buffer.value().set_data(buffers[buffer.key()]);
  bare->train(network.is_training());
  return bare;
}

template <typename Network>
Loaded<SentenceEncoderImpl> load_as(const std::string& folder, const LoadOptions& options) {
  const SentenceLayout layout = read_sentence_layout(folder);
  Loaded<Network> loaded = Network::from_pretrained(folder, options);
  // Nothing reads the pooler: its absence is no fault of the model.
  std::vector<std::string>& missing = loaded.report.missing;
  const auto of_pooler = std::remove_if(missing.begin(), missing.end(), is_of_pooler);
  const bool lacks_pooler = of_pooler != missing.end();
  missing.erase(of_pooler, missing.end());
  // A network with a pooler could not resume from the checkpoints of one without.
  if (lacks_pooler) loaded.model = without_pooler(*loaded.model);
  auto encoder = std::make_shared<EncoderOf<Network>>(std::move(loaded.model));
  return {std::make_shared<SentenceEncoderImpl>(std::move(encoder), layout), std::move(loaded.report)};
}

struct EncoderKind {
  const char* type;  ///< "model_type" of config.json
  Loaded<SentenceEncoderImpl> (*load)(const std::string& folder, const LoadOptions& options);
};
constexpr EncoderKind kEncoderKinds[] = {{"bert", load_as<BertModelImpl>},
                                         {"roberta", load_as<RobertaModelImpl>},
                                         {"distilbert", load_as<DistilBertModelImpl>},
                                         {"electra", load_as<ElectraModelImpl>},
                                         {"mpnet", load_as<MPNetModelImpl>}};

std::shared_ptr<SentenceEncoderImpl> new_bert(const BertConfig& config) {
  auto network = std::make_shared<BertModelImpl>(config, /*has_pooler=*/false);
  return std::make_shared<SentenceEncoderImpl>(std::make_shared<EncoderOf<BertModelImpl>>(std::move(network)),
                                               SentenceLayout{});
}

HiddenRows rows_read_by(Pooling pooling) { return pooling == Pooling::Cls ? HiddenRows::First : HiddenRows::Tokens; }

at::Tensor pooled(const at::Tensor& tokens, const at::Tensor& mask, Pooling pooling) {
  const at::Tensor wide = tokens.scalar_type() == at::kDouble ? tokens : tokens.to(at::kFloat);
  if (pooling == Pooling::Cls) return wide.select(1, 0);
  if (!mask.defined()) return pooling == Pooling::Mean ? wide.mean(1) : wide.amax(1);
  const at::Tensor is_token = mask.to(wide.scalar_type()).unsqueeze(2);
  if (pooling == Pooling::Max) {
    return wide.masked_fill(is_token.eq(0), std::numeric_limits<float>::lowest()).amax(1);
  }
  return (wide * is_token).sum(1) / is_token.sum(1).clamp_min(kLeastCount);
}

}  // namespace

SentenceEncoderImpl::SentenceEncoderImpl(std::shared_ptr<Encoder> encoder, const SentenceLayout& layout)
    : Module("SentenceEncoder"), encoder_(std::move(encoder)), layout_(layout) {
  // The parts, not the encoder itself: names then begin as in the encoder's own files.
  for (const auto& part : encoder_->module().named_children()) register_module(part.key(), part.value());
  for (auto& parameter : named_parameters()) {
    if (is_of_pooler(parameter.key())) parameter.value().set_requires_grad(false);
  }
}

SentenceEncoderImpl::~SentenceEncoderImpl() = default;

Loaded<SentenceEncoderImpl> SentenceEncoderImpl::from_pretrained(const std::string& folder,
                                                                 const LoadOptions& options) {
  const ConfigFile config(folder);
  const std::string type = config.text({"model_type"}, "");
  for (const EncoderKind& kind : kEncoderKinds) {
    if (type == kind.type) return kind.load(folder, options);
  }
  config.refuse("model_type", "is \"" + type + "\", for which there is no encoder of texts",
                "use a model of the type bert, roberta, distilbert, electra or mpnet");
}

Loaded<SentenceEncoderImpl> SentenceEncoderImpl::load_or_make(const std::string& folder_or_name,
                                                              const LoadOptions& options,
                                                              std::optional<std::int64_t> pad_token_id) {
  if (std::filesystem::is_directory(folder_or_name)) return from_pretrained(folder_or_name, options);
  for (const char* size : {"tiny", "mini", "small", "base"}) {
    if (folder_or_name != std::string("bert-") + size) continue;
    BertConfig config = bert_config_of_size(size);
    if (options.tokenizer_size > 0) config.vocab_size = options.tokenizer_size;
    config.pad_token_id = pad_token_id;
    config.gradient_checkpointing = options.gradient_checkpointing;
    return {new_bert(config), {}};
  }
  throw Error("there is no folder " + folder_or_name + ", nor an encoder of that name", "--model",
              download_hint(folder_or_name) +
                  "name the folder of a model, or one of bert-tiny, bert-mini, bert-small, bert-base, which begin with "
                  "random weights");
}

at::Tensor SentenceEncoderImpl::forward(const TokenInputs& inputs) {
  const at::Tensor vectors =
      pooled(encoder_->forward(inputs, rows_read_by(layout_.pooling)), inputs.attention_mask, layout_.pooling);
  if (!layout_.normalizes) return vectors;
  return vectors / vectors.norm(2, {1}, /*keepdim=*/true).clamp_min(kLeastLength);
}

at::Tensor SentenceEncoderImpl::forward(const Batch& batch) {
  std::vector<at::Tensor> vectors;
  for (std::size_t text = 0;; ++text) {
    const auto ids = batch.find(numbered_field("input_ids", text));
    if (ids == batch.end()) break;
    TokenInputs inputs;
    inputs.input_ids = ids->second;
    inputs.attention_mask = batch_field(batch, numbered_field("attention_mask", text), name());
    vectors.push_back(forward(inputs));
  }
  if (vectors.empty()) {
    throw Error("the batch has no \"input_ids_0\"", name(), "read a SentenceDataset with a SentenceCollator");
  }
  return at::stack(vectors, 1);
}

void SentenceEncoderImpl::train(bool on) {
  Module::train(on);
  encoder_->module().train(on);
}

std::int64_t SentenceEncoderImpl::hidden_size() const { return encoder_->hidden_size(); }

std::int64_t SentenceEncoderImpl::max_positions() const { return encoder_->max_positions(); }

std::map<std::string, std::string> SentenceEncoderImpl::files() const {
  std::map<std::string, std::string> files = sentence_layout_files(layout_, hidden_size());
  files["config.json"] = encoder_->config_json();
  return files;
}

double SentenceEncoderImpl::floating_point_ops(const Batch& batch) const {
  std::int64_t numbers = 0, tokens = 0;
  for (const at::Tensor& parameter : parameters()) numbers += parameter.numel();
  for (const auto& module : modules(/*include_self=*/false)) {
    if (const auto* embedding = dynamic_cast<const Embedding*>(module.get())) numbers -= embedding->weight().numel();
  }
  for (const auto& [name, tensor] : batch) {
    if (name.rfind("input_ids", 0) == 0) tokens += tensor.numel();
  }
  return 6.0 * static_cast<double>(tokens) * static_cast<double>(numbers);
}

}  // namespace lockstep
