#include <cstddef>
#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/base/error.h"
#include "lockstep/detail/models/bert_config.h"
#include "lockstep/detail/models/gpt2_config.h"
#include "lockstep/detail/models/rotary_config.h"

namespace lockstep::fuzz {
namespace {

constexpr std::size_t kMostLabels = 10'000;  // more take seconds to write and to read, and show nothing else

// A configuration that is read can be written, and reads back equal.
template <typename Config>
void read_and_write(std::string_view bytes, const std::string& architecture) {
  try {
    const Config config = Config::from_file(file_with("config.json", bytes));
    if (config.head.labels.size() > kMostLabels) return;
    const std::string written = config.to_json(architecture);
    LOCKSTEP_HOLDS(Config::from_file(file_with("config.json", written)).to_json(architecture) == written);
  } catch (const Error&) {  // of another model
  }
}

}  // namespace

void run_model_config(std::string_view bytes) {
  read_and_write<BertConfig>(bytes, "BertForSequenceClassification");
  read_and_write<GPT2Config>(bytes, "GPT2LMHeadModel");
  read_and_write<LlamaConfig>(bytes, "LlamaForCausalLM");
  read_and_write<Qwen2Config>(bytes, "Qwen2ForCausalLM");
  read_and_write<MistralConfig>(bytes, "MistralForCausalLM");
  read_and_write<SmolLM3Config>(bytes, "SmolLM3ForCausalLM");
}

}  // namespace lockstep::fuzz
