#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/detail/models/bert_config.h"
#include "lockstep/detail/models/initialization.h"
#include "lockstep/detail/models/pretrained_model.h"
#include "lockstep/detail/models/token_inputs.h"
#include "lockstep/models/pretrained.h"

namespace lockstep {

class BertEmbeddings;
class BertEncoder;
class BertPooler;
class Embedding;

/// Which rows of the last hidden state the caller reads. The others need not be computed, which takes as much less time
/// as there is padding. On a CPU they are left out if every text begins with a token, and nothing else changes.
enum class HiddenRows {
  All,     ///< those of padding too, as Hugging Face's classes return them
  Tokens,  ///< those of tokens: rows of padding may be 0
  First    ///< that of each text's first token: there may be no other
};

struct BertOutput {
  at::Tensor last_hidden_state;  ///< [size, length, hidden_size]; [size, 1, hidden_size] if others are left out
  at::Tensor pooler_output;  ///< [size, hidden_size]: tanh of a layer over the first token; undefined without pooler
};

/// The encoder (Devlin et al., 2018, arXiv:1810.04805), with the parameter names of Hugging Face's `BertModel`.
class BertModelImpl : public PretrainedModule<BertModelImpl, BertConfig, torch::nn::Module> {
 public:
  static constexpr const char* kArchitecture = "BertModel";

  /// @param has_pooler  as `add_pooling_layer`
  /// @throws Error  if the configuration is not possible
  explicit BertModelImpl(const BertConfig& config, bool has_pooler = true,
                         InitialWeights weights = InitialWeights::Random);
  BertModelImpl(const BertConfig& config, InitialWeights weights) : BertModelImpl(config, true, weights) {}
  ~BertModelImpl() override;

  /// @throws Error  if ids, lengths or shapes do not fit the configuration; the message names field, row and column
  BertOutput forward(const TokenInputs& inputs, HiddenRows rows = HiddenRows::All);

  const Embedding& word_embeddings() const;

 private:
  std::shared_ptr<BertEmbeddings> embeddings_;
  std::shared_ptr<BertEncoder> encoder_;
  std::shared_ptr<BertPooler> pooler_;
};
extern template class PretrainedModule<BertModelImpl, BertConfig, torch::nn::Module>;
TORCH_MODULE(BertModel);

}  // namespace lockstep
