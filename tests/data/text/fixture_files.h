#pragma once

// What make_fixture.py and make_splits.py wrote, and how they hash.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/files/atomic_file.h"

namespace lockstep {

inline std::string fixture(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/text/fixture/" + name;
}

inline nlohmann::json fixture_json(const std::string& name) { return nlohmann::json::parse(read_file(fixture(name))); }

constexpr std::uint64_t kHashStart = 0xCBF29CE484222325u;

inline std::uint64_t fnv(const std::string& text, std::uint64_t hash = kHashStart) {
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  return hash;
}

inline std::string hex(std::uint64_t value) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

/// Adds the vocabulary and merges of the fixture to a tokenizer.json without them.
inline nlohmann::json with_vocabulary(nlohmann::json tokenizer, const std::string& vocabulary) {
  nlohmann::json& model = tokenizer["model"];
  if (vocabulary == "bert") {
    model["type"] = "WordPiece";
    std::ifstream in(fixture("bert/vocab.txt"));
    int id = 0;
    for (std::string token; std::getline(in, token); ++id) model["vocab"][token] = id;
  } else {
    model["type"] = "BPE";
    model["vocab"] = fixture_json("bpe/vocab.json");
    std::ifstream in(fixture("bpe/merges.txt"));
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("#version", 0) != 0) model["merges"].push_back(line);
    }
  }
  return tokenizer;
}

}  // namespace lockstep
