// Results of Hugging Face's own libraries, recorded by the scripts in tests/train/huggingface/.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/files/atomic_file.h"
#include "tests/support/running_program.h"

namespace lockstep {

inline std::string huggingface_folder() { return std::string(LOCKSTEP_SOURCE_DIR) + "/tests/train/huggingface/"; }

inline nlohmann::json huggingface_facts(const std::string& name) {
  return nlohmann::json::parse(read_file(huggingface_folder() + name + ".json"));
}

/// Fails if two documents differ by more than rounding.
inline void expect_same_facts(const nlohmann::json& got, const nlohmann::json& want, const std::string& where) {
  if (got.is_number() && want.is_number()) {
    const double tolerance = 2e-3 * std::max(1e-3, std::abs(want.get<double>()));
    EXPECT_NEAR(got.get<double>(), want.get<double>(), tolerance) << where;
    return;
  }
  if (!want.is_structured() || got.type() != want.type() || got.size() != want.size()) {
    EXPECT_EQ(got, want) << where;
    return;
  }
  const auto other = got.items();
  auto at = other.begin();
  for (const auto& [key, value] : want.items()) {
    EXPECT_EQ(at.key(), key) << where;
    expect_same_facts(at.value(), value, where + "/" + key);
    ++at;
  }
}

/// Runs `NAME.py` with the interpreter in LOCKSTEP_HUGGINGFACE_PYTHON, and compares its output with `NAME.json`.
inline void expect_facts_of_today(const std::string& name) {
  const char* python = std::getenv("LOCKSTEP_HUGGINGFACE_PYTHON");
  if (python == nullptr) {
    GTEST_SKIP()
        << "LOCKSTEP_HUGGINGFACE_PYTHON names no interpreter with transformers 5, see docs/design/test-tools.md; the "
           "recorded facts are asserted all the same";
  }
  const auto want = huggingface_facts(name);
  const std::string version = want.at("versions").at("transformers").get<std::string>();
  const ProgramEnd asked =
      run_program({python, "-c", "import torch, accelerate, transformers; print(transformers.__version__)"});
  if (asked.code != 0 || asked.out.substr(0, asked.out.find('.')) != version.substr(0, version.find('.'))) {
    GTEST_SKIP() << python << " has transformers " << (asked.code == 0 ? asked.out : "not at all")
                 << "; the facts are of " << version;
  }
  const ProgramEnd end = run_program({python, huggingface_folder() + name + ".py"}, {}, std::chrono::seconds(300));
  ASSERT_EQ(end.code, 0) << end.err;
  auto got = nlohmann::json::parse(end.out);
  got["versions"] = want.at("versions");
  expect_same_facts(got, want, name);
}

}  // namespace lockstep
