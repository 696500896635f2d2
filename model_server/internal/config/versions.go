package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Versions is the policy that picks versions: exactly one of its fields is set. Absent, it is the latest one.
type Versions struct {
	Latest   int
	All      bool
	Specific []int64
	// policies are the keys that the text has.
	policies []string
}

// UnmarshalJSON reads TensorFlow Serving's ServableVersionPolicy.
func (v *Versions) UnmarshalJSON(text []byte) error {
	var read struct {
		Latest *struct {
			NumVersions *int `json:"num_versions"`
		} `json:"latest"`
		All      *struct{} `json:"all"`
		Specific *struct {
			Versions []int64 `json:"versions"`
		} `json:"specific"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return fmt.Errorf("model_version_policy: %w", err)
	}
	*v = Versions{policies: []string{}}
	if read.Latest != nil {
		v.Latest, v.policies = 1, append(v.policies, "latest")
		if read.Latest.NumVersions != nil {
			v.Latest = *read.Latest.NumVersions
		}
	}
	if read.All != nil {
		v.All, v.policies = true, append(v.policies, "all")
	}
	if read.Specific != nil {
		v.Specific, v.policies = append([]int64{}, read.Specific.Versions...), append(v.policies, "specific")
	}
	return nil
}

func (v Versions) check() error {
	if len(v.policies) != 1 {
		return fmt.Errorf("model_version_policy has [%s]; allowed: one of latest, all and specific", strings.Join(v.policies, ", "))
	}
	if v.policies[0] == "latest" && v.Latest < 1 {
		return fmt.Errorf("model_version_policy.latest.num_versions is %d; allowed: 1 or more", v.Latest)
	}
	if v.Specific != nil && len(v.Specific) == 0 {
		return errors.New("model_version_policy.specific.versions is empty; allowed: one version or more")
	}
	for _, version := range v.Specific {
		if version < 1 {
			return fmt.Errorf("model_version_policy.specific.versions has %d; allowed: 1 or more", version)
		}
	}
	return nil
}
