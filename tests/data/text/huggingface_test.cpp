// The output of `save`, read by Hugging Face's library itself, if the python on the PATH has it.
#include <gtest/gtest.h>

#include <algorithm>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/data/text/small_tokenizers.h"

namespace lockstep {
namespace {

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  char block[4096];
  for (std::size_t got = 0; pipe && (got = std::fread(block, 1, sizeof(block), pipe.get())) > 0;)
    text.append(block, got);
  return text;
}

TEST(HuggingFaceLibrary, LoadsWhatWeSave) {
  if (output_of("python3 -c 'import tokenizers; print(tokenizers.__version__)' 2>/dev/null").empty()) {
    GTEST_SKIP() << "python3 has no module tokenizers (pip install tokenizers)";
  }
  SmallFolder bert, roberta;
  bert.put("vocab.txt", lines(small_bert_tokens()));
  roberta
      .put("vocab.json", R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"<mask>":4,"h":5,"i":6,"Ġ":7,"hi":8,"Ġhi":9,"!":10})")
      .put("merges.txt", "#version: 0.2\nh i\nĠ hi\n");
  for (const SmallFolder* folder : {&bert, &roberta}) {
    const Tokenizer tokenizer = folder->load();
    const TemporaryFolder saved;
    tokenizer.save(saved.path());
    write_text(saved / "read.py",
               "import sys, tokenizers\n"
               "t = tokenizers.Tokenizer.from_file(sys.argv[1] + '/tokenizer.json')\n"
               "for text in sys.argv[2:]: print(t.encode(text, 'hi boat').ids)\n");
    std::string want;
    std::string command = "python3 " + saved / "read.py";
    command += " " + saved.path();
    for (const char* text : {"The boats [MASK] hi", "hi hi! <mask>"}) {
      want += nlohmann::json(tokenizer.encode_pair(text, "hi boat").ids).dump() + "\n";
      command += " '" + std::string(text) + "'";
    }
    std::string got = output_of(command);
    got.erase(std::remove(got.begin(), got.end(), ' '), got.end());
    EXPECT_EQ(got, want);
  }
}

}  // namespace
}  // namespace lockstep
