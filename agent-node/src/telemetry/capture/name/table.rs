//! The words that name a credential. One table, and the only place to widen the rule.
//!
//! All in lower case, with blanks between them. A word that is missing here is a leak; a word too many withholds
//! more.

/// Wherever these letters stand in a word, whatever stands around them: `PGPASSWORD`, `hashed_password`, `tokens`.
pub(super) const STEMS: &str = "accesskey adgangskode apikey argon authent authoris authoriz bcrypt bearer confidential cookie credential creds \
csrf decrypt encrypt hmac htpasswd jwt keychain keypair keyphrase keyring keystore keytab lmhash login mnemonic \
nthash ntlm oauth passcode passkey passphrase passw passwd password passwort passwrd pasword pbkdf privatekey \
psswd pswd psword pswrd pssword passowrd paswrd assword masterauth bitlocker cryptsetup pwd pwrd scrypt secret sessid sessionid signature snmp sshkey token truststore xsrf";

/// Such letters of other languages: what stays of a word when it is inflected.
pub(super) const FOREIGN_STEMS: &str = "adgangskod tilgangskod lyklaor pasfhocal cyfrinair katalaluan benutzerdaten contrase contrasen contrassenya contrasenya fjalekalim fjalëkalim geheim geslo haslo \
hasło haseł hasla hasła heslo hesla identifiant jelsz kennwort kennwört kodeord codeord kodewort codewort \
losenord lösenord losung losinka lozink lykilor nenosiri palabraclave parol parool pasahitz pasvort passord \
sajhatas salasan salason salasõn sandi schlüsselwort secreto segredo senha sifre şifre slaptaz slaptaž tajny tajné tunnussan \
wachtwoord wagwoord zugangscode zugangsdat anmeldedat anmeldung zugriffs schluessel schlüssel парол пассвор пасвор секрет токен \
пін пинкод шифр лозинк ключ логин логін гасло кодовое κωδικ συνθηματικ μυστικ סיסמ סוד קוד المرور السر كلمةالسر \
سري رمز عبور گذرواژ پسورد پاسورڈ پاس पासवर कूटशब गुप পাসওয়ার গোপন கடவு రహస రహస్య รหัส ลับ გასაღებ პაროლ գաղտն \
密码 密碼 口令 密钥 密鑰 秘钥 秘密 令牌 凭证 憑證 凭据 验证码 驗證碼 登录 登入 暗号 パスワ パスコ 暗証 トークン シークレット 合言葉 認証 鍵 ログイン 비밀 암호 토큰 인증 열쇠 비번 로그인 私钥 私鑰 密匙 授权码 提取码 助记词 激活码 登陆 访问码 apiキ アクセスキ ログオン 暗唱番号 api키 액세스키 핀번호 \
bestätigungscod sicherheitscod freischaltcod türcod entsperrcod zugäng anmelde einlogg inloggegeven toegangscod inloggning zaloguj accedi giriş войдите вход";

/// Whole words, alone or as a part of an identifier (`db_pin`, `userPin`), with or without a plural's `s`.
pub(super) const WORDS: &str = "adduser auth authn authz autologin ccv anahtar avain bitwarden chap chave cheie chiave clave clef codephrase codeword combination cpin identified contrasena createuser cred csc cvc cvv \
doorcode dsn fernet crypt ftp geheimnis gpg pgp hooks hotp htaccess iban imap jwe jwk jwks jws kerberos keyblob keyfile kinit klic klucz klíč kulcs \
ldap ldapsearch lftp llave logon mdp mfa motdepasse mysqli netrc nyckel nøgle onetime otp pap parola parole pass pat pdo pfx pgpass pin \
pincode pins privkey psk psw puk pw pword rabbitmqctl rsa salt saml sas seedphrase session shibboleth sid sig \
signer signin signon smbclient smtp sqlplus ssid ssn sso tacacs tan totp useradd userinfo usermod username \
tkn userpass vault watchword webhook wep wifi wlan wpa xauth zugang";

/// Two words, one after the other, whatever stands between them; commas between pairs: `log in`, `API key`, `api_key`, `identified by`.
pub(super) const PAIRS: &str = "log in, logs in, logged in, logging in, log into, logs into, logged into, logging into, log on, logged on, \
logging on, sign in, signs in, signed in, signing in, sign into, signed into, sign on, signed on, pass word, \
pass words, pass phrase, pass code, mot de, de passe, kata sandi, kata laluan, mật khẩu, mật mã, mat ma, mat khau, \
palabra clave, palavra passe, llave privada, chiave privata, clé privée, clé api, clave api, chiave api, \
chave api, код доступа, пин код, код подтверждения, one time, two factor, multi factor, second factor, un pw, code is, código de, codigo de, código es, codigo es, code est, code d, codice di, codice è, \
codes are, code was, enter code, use code, safe combination, lock combination, locker combination, \
combination is, unlock phrase, not share, t share, never share, this safe, it safe, eyes only, invite link, \
reset link, join link, confirmation number, access number, etc shadow, client assertion, client certificate, \
key is, key was, key pem, keys are, my key, our key, his key, her key, their key, your key, your keys, \
entry code, codes below, seed phrase, seed phrases, seed words, recovery phrase, recovery words, recovery seed, \
backup phrase, wallet seed, wallet phrase, secret words, secure string, secure strings, connection string, \
connection strings, connect string, conn string, conn str, magic word, magic words, magic link, code word, \
code words, safe word, code phrase, open sesame, identified by, identified with, net user, net use, ssh keygen, acl bootstrap, http basic, into user, \
into users, into account, into accounts, into members, create user, create account, add user, get connection, \
hash make, key chain, key string, key material, key pair, key file, key ring, key store, wi fi, access data, \
access details, account details, user details, admin details, security question, security answer, maiden name, \
credit card, card number, unlock with, unlock it, unlock the, unlocks with, unlocked with, opens with, \
shared access, sas url, signed url, \
logga in, log ind, inicia sesión, inicia sesion, se connecter, api 키, 액세스 키, key for, community string, access phrase, \
pragma key, sudo s, bw unlock, adb pair";

/// Two letters with a slash between them.
pub(super) const SLASHED: &str = "p w, u p";

/// What makes a credential of a key or a code that follows: `signing key`, `verification code`.
pub(super) const OF_KEYS: &str = "access account activation admin aes age alarm api app application auth backup client confirmation consumer \
credential decryption deploy device door emergency encryption gate gpg hmac host invitation invite isakmp join licence license lock login \
master merchant mfa network otp pairing partner personal pgp pin preshared privacy private product project \
provisioning publishable recovery reset root rsa safe scratch secret security serial server service session \
setup shared signing sms ssh storage subscription time tls unlock user verification vpn wallet webhook wireguard \
write";

/// What stands before `key` within an identifier and makes nothing secret of it: `primary_key`, `cacheKey`. Behind any other
/// word it does: `MAPBOX_KEY`, `mailgunKey`.
pub(super) const ORDINARY_KEYS: &str = "arrow as by cache candidate column composite config contains current dedup delete dict don duplicate enter \
entity entry event field find for foreign function get group has hoc hot id idempotency index insert into is \
item joc json kv label lac lo lookup map message metric mic mon natural new next no num object of option \
ordering pair partition per po prev primary property public range record ref remove ric routing row search self \
setting shard shift smo sort sorted sorting str surrogate this to translation tur unique whis with yaml";

/// What `tokens` are counted with: `max_tokens`, `input_tokens`.
pub(super) const COUNTED: &str =
    "cached completion input max min num number of output prompt reasoning remaining thinking total used";

/// What makes of `pass` before it or behind it what tests and arguments do.
pub(super) const PASSING: &str = "tests test must should will to all can cannot checks builds let";

/// The same, behind it.
pub(super) const PASSED: &str = "the it them on in to through by a an this these along over as into";

/// Before `code for`: what asks for a program.
pub(super) const PROGRAMS: &str =
    "write writes writing generate implement review source test sample example rust python java";
