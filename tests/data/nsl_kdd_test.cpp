#include "lockstep/data/nsl_kdd.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/files/atomic_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

const std::string kFolder = std::string(LOCKSTEP_SHARED_DATA) + "/nsl-kdd/";

TEST(NslKdd, TheRealFilesAreRead) {
  if (!std::filesystem::is_directory(kFolder)) GTEST_SKIP() << kFolder << " is not there";
  const CsvData train = read_nsl_kdd(kFolder + "KDDTrain+_binary.csv.gz");
  const auto fifth = read_nsl_kdd(kFolder + "KDDTrain+_20Percent.txt.gz", train.encoding);
  const auto test = read_nsl_kdd(kFolder + "KDDTest+.txt.gz", train.encoding);
  const at::Tensor& features = train.dataset->fields().at("features");
  const at::Tensor& labels = train.dataset->fields().at("labels");
  EXPECT_EQ(features.sizes(), (std::vector<std::int64_t>{125973, 122}));
  EXPECT_EQ(fifth->size(), 25192);
  EXPECT_EQ(test->size(), 22544);
  // Normal and attack, as counted by the data set's authors.
  EXPECT_EQ(labels.sum().item<std::int64_t>(), 58630);
  EXPECT_EQ(test->fields().at("labels").sum().item<std::int64_t>(), 22544 - 9711);
  EXPECT_EQ(features.min().item<float>(), 0);
  EXPECT_EQ(features.max().item<float>(), 1);
  // The fifth is the beginning of the whole file, with other label texts.
  EXPECT_TRUE(fifth->fields().at("features").equal(features.slice(0, 0, 25192)));
  EXPECT_TRUE(fifth->fields().at("labels").equal(labels.slice(0, 0, 25192)));
}

TEST(NslKdd, ARecordBecomesItsFeatures) {
  const TemporaryFolder folder;
  const std::string zeros = ",0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0";
  write_file_atomically(folder / "train",
                        "0,tcp,http,SF,0,0" + zeros + ",normal,20\n3,udp,ftp,S0,7,0" + zeros + ",neptune,1\n");
  const CsvData data = read_nsl_kdd(folder / "train");
  const auto& names = data.encoding.feature_names();
  ASSERT_EQ(names.size(), 122U);
  const at::Tensor second = data.dataset->get(1).at("features");
  std::vector<std::string> ones;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (second[static_cast<std::int64_t>(i)].item<float>() == 1) ones.push_back(names[i]);
  }
  EXPECT_EQ(ones, (std::vector<std::string>{"duration", "protocol_type=udp", "service=ftp", "flag=S0", "src_bytes"}));
  EXPECT_EQ(second.sum().item<float>(), 5);
  EXPECT_TRUE(data.dataset->fields().at("labels").equal(at::tensor({0, 1}, at::kLong)));
  write_file_atomically(folder / "bad", "0,sctp,http,SF,0,0" + zeros + ",normal,20\n");
  expect_error("\"sctp\" in the column \"protocol_type\"", [&] { read_nsl_kdd(folder / "bad"); });
}

}  // namespace
}  // namespace lockstep
