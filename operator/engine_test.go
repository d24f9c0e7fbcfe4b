package operator_test

import "os"

func engineOf() string { return os.Getenv("BOBBIN_TEST_ENGINE") }

var binary = ""
