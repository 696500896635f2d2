package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

const hdfs = "hdfs://"

// InHDFS says whether the versions have to be copied here.
func (m Model) InHDFS() bool { return strings.HasPrefix(m.BasePath, hdfs) }

func (m Model) checkBasePath() error {
	if m.InHDFS() || filepath.IsAbs(m.BasePath) {
		return nil
	}
	if scheme, _, ok := strings.Cut(m.BasePath, "://"); ok {
		return fmt.Errorf("base_path is %q; %s cannot be read here; allowed: an absolute path of this machine, or hdfs://NAMESERVICE/PATH",
			m.BasePath, scheme)
	}
	return fmt.Errorf("base_path is %q; allowed: an absolute path of this machine, or hdfs://NAMESERVICE/PATH", m.BasePath)
}

// checkHDFS checks what models of HDFS need.
func (c *Config) checkHDFS() error {
	of := map[string]string{}
	for i, model := range c.Models {
		if !model.InHDFS() {
			continue
		}
		if !filepath.IsAbs(c.CacheDirectory) {
			return fmt.Errorf("cache_directory is %q; models[%d] comes from HDFS and is copied there; allowed: an absolute path",
				c.CacheDirectory, i)
		}
		if other, twice := of[model.BasePath]; twice {
			return fmt.Errorf("models[%d]: base_path is that of %s; one model serves a directory of HDFS: requests can name its versions", i, other)
		}
		of[model.BasePath] = model.Name
	}
	return c.Kerberos.check()
}

func (k *Kerberos) check() error {
	if k == nil {
		return nil
	}
	if k.Principal == "" {
		return errors.New("kerberos needs principal, NAME@REALM, and keytab, the path of the file with its key")
	}
	return checkPath("kerberos.keytab", k.Keytab)
}
