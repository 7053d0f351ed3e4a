#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/base/error.h"
#include "lockstep/models/bert_config.h"
#include "lockstep/models/gpt2_config.h"

namespace lockstep::fuzz {
namespace {

// A configuration that is read can be written, and reads back equal.
template <typename Config>
void read_and_write(std::string_view bytes, const std::string& architecture) {
  try {
    const std::string written = Config::from_file(file_with("config.json", bytes)).to_json(architecture);
    LOCKSTEP_HOLDS(Config::from_file(file_with("config.json", written)).to_json(architecture) == written);
  } catch (const Error&) {  // of another model
  }
}

}  // namespace

void run_model_config(std::string_view bytes) {
  read_and_write<BertConfig>(bytes, "BertForSequenceClassification");
  read_and_write<GPT2Config>(bytes, "GPT2LMHeadModel");
}

}  // namespace lockstep::fuzz
