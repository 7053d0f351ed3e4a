#include "lockstep/base/text/nearest_name.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct TypedName {
  const char* name;
  const char* typed;
  const char* want;
  friend std::ostream& operator<<(std::ostream& out, const TypedName& c) { return out << c.name; }
};

class NearestName : public ::testing::TestWithParam<TypedName> {};

TEST_P(NearestName, IsTheOneThatWasProbablyMeant) {
  EXPECT_EQ(nearest_name(GetParam().typed, {"text", "label", "premise", "batch_size"}), GetParam().want);
}

TEST(DidYouMean, QuotesTheNearestNameIfThereIsOne) {
  EXPECT_EQ(did_you_mean("lineer", {"cosine", "linear"}), "; did you mean 'linear'?");
  EXPECT_EQ(did_you_mean("sawtooth", {"cosine", "linear"}), "");
}

TEST(NearestNameAlone, NeedsALetterThatIsTheSame) {
  EXPECT_EQ(nearest_name("2", {"0", "1"}), "");
  EXPECT_EQ(nearest_name("-f", {"-q"}), "-q");
}

INSTANTIATE_TEST_SUITE_P(Table, NearestName,
                         ::testing::Values(TypedName{"exact", "label", "label"}, TypedName{"swapped", "lable", "label"},
                                           TypedName{"swapped_in_a_short_name", "txet", "text"},
                                           TypedName{"left_out", "premse", "premise"},
                                           TypedName{"added", "texts", "text"}, TypedName{"other", "tixt", "text"},
                                           TypedName{"hyphen", "batch-size", "batch_size"},
                                           TypedName{"too_far", "review", ""}, TypedName{"half_of_it", "te", ""},
                                           TypedName{"nothing", "", ""}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
