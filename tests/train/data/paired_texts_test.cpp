// Ranks whose files have the same first texts, and another second one in some row.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/text_file.h"
#include "lockstep/data/tokenized_dataset.h"
#include "lockstep/parallel/same_data.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// `second` is the second text of row 7, and `third` that of row 9.
std::shared_ptr<const Dataset> pairs_of_rank(const TemporaryFolder& folder, int rank, const std::string& second,
                                             const std::string& third) {
  std::string rows = "a,b,label\n";
  for (int row = 0; row < 20; ++row) {
    rows += "the boat,";
    rows += row == 7 ? second : row == 9 ? third : "is here";
    rows += row % 2 == 0 ? ",yes\n" : ",no\n";
  }
  const std::string file = folder / ("rows" + std::to_string(rank) + ".csv");
  write_file_atomically(file, rows);
  TextFileOptions options;
  options.texts = {"a", "b"};
  options.label = "label";
  options.labels = {{"no", 0}, {"yes", 1}};
  write_file_atomically(folder / ("vocab" + std::to_string(rank) + ".txt"),
                        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nboat\nis\nhere\nnot\n");
  return tokenize(*open_text_file(file, options),
                  load_bert_vocabulary(folder / ("vocab" + std::to_string(rank) + ".txt"), {}));
}

// What two ranks are refused with, if rank 1 has these second texts. Empty: they are not.
std::vector<std::string> refusals_of_pairs(const std::string& second, const std::string& third) {
  const TemporaryFolder folder;
  std::vector<std::string> texts(2);
  spawn_threads(2, [&](const std::shared_ptr<Communicator>& group) {
    const int rank = group->rank();
    const auto data =
        rank == 0 ? pairs_of_rank(folder, 0, "is not here", "is here") : pairs_of_rank(folder, 1, second, third);
    try {
      require_same_data(*group, data, "rows" + std::to_string(rank) + ".csv");
    } catch (const UsageError& error) {
      texts[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  return texts;
}

TEST(PairedTexts, ASecondTextThatDiffersIsNamed) {
  for (const std::string& text : refusals_of_pairs("is not here", "is here")) EXPECT_EQ(text, "");
  for (const std::string& text : refusals_of_pairs("is here", "is here")) {
    EXPECT_NE(text.find("rank 1 has other samples than rank 0; the first that differs is sample 7,"), std::string::npos)
        << text;
    EXPECT_NE(text.find("rows1.csv of rank 1, rows0.csv of rank 0"), std::string::npos) << text;
  }
  for (const std::string& text : refusals_of_pairs("is here", "is not here")) {
    EXPECT_NE(text.find("in another order; the first that differs is sample 7,"), std::string::npos) << text;
  }
}

// The same tokens in all, of which the first text has other ones: their types tell them apart.
TEST(PairedTexts, ATextThatMovesFromTheSecondToTheFirstIsADifference) {
  const TemporaryFolder folder;
  TextFileOptions options;
  options.texts = {"a", "b"};
  write_file_atomically(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nboat\nis\nhere\nnot\n");
  const Tokenizer tokenizer = load_bert_vocabulary(folder / "vocab.txt", {});
  std::vector<std::uint64_t> digests;
  for (const char* row : {"the [SEP] boat,is\n", "the,boat [SEP] is\n"}) {
    write_file_atomically(folder / "rows.csv", std::string("a,b\n") + row);
    const auto data = tokenize(*open_text_file(folder / "rows.csv", options), tokenizer);
    std::uint64_t digest = 0;
    ASSERT_TRUE(data->write_digests({0}, &digest));
    digests.push_back(digest);
  }
  EXPECT_NE(digests[0], digests[1]);
}

}  // namespace
}  // namespace lockstep
