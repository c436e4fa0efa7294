"""List the headings of Moodle's grading worksheet, which Moodle writes in the teacher's language.

The words are from Moodle's language packs: ``assign.php`` and ``moodle.php``, the strings ``recordid``,
``fullname``, ``idnumber``, ``username``, ``email``, ``grade`` or ``gradenoun``, ``maxgrade``,
``gradecanbechanged`` and ``no``.
``mod/assign/gradingtable.php`` puts the columns together.
"""

from __future__ import annotations

ROLES = ("identifier", "full name", "id number", "username", "email", "grade", "most", "open", "no")
_BY_LANGUAGE = """
en|Identifier|Full name|ID number|Username|Email address|Grade|Maximum grade|Grade can be changed|No
ca|Identificador|Nom complet|Número ID|Nom d'usuari|Adreça electrònica|Qualificació|Qualificació màxima|Es pot canviar la qualificació|No
de|ID|Vollständiger Name|ID-Nummer|Anmeldename|E-Mail-Adresse|Bewertung|Bestwertung|Bewertung kann geändert werden|Nein
el|Αναγνωριστικό|Πλήρες όνομα|Αναγνωριστικός αριθμός|Όνομα χρήστη|Διεύθυνση ηλε.ταχυδρομείου|Βαθμός|Μέγιστος Βαθμός|Ο βαθμός μπορεί να αλλάξει|Όχι
es|Identificador|Nombre completo|Número de ID|Nombre de usuario|Dirección de correo|Calificación|Calificación máxima|La calificación puede ser cambiada|No
eu|Identifikatzailea|Izen osoa|ID zenbakia|Erabiltzaile-izena|Helbide elektronikoa|Kalifikazioa|Gehieneko kalifikazioa|Kalifikazioa alda daiteke|Ez
fr|Identifiant|Nom complet|Numéro d'identification|Nom d'utilisateur|Adresse de courriel|Note|Note maximale|La note peut être modifiée|Non
gl|Identificador|Nome completo|Número ID|Nome de usuario|Enderezo de correo|Cualificación|Cualificación máxima|A cualificación pode seren cambiada|Non
it|Identificativo|Nome|Codice identificativo|Username|Indirizzo email|Valutazione|Valutazione massima|La valutazione può essere cambiata|No
ja|ID|フルネーム|IDナンバ|ユーザ名|メールアドレス|評点|最大評点|評点変更可|No
nl|Identificatie|Volledige naam|Nummer (ID)|Gebruikersnaam|E-mailadres|Cijfer/Beoordeling|Maximaal cijfer|Het cijfer kan gewijzigd worden|Nee
pt|Identificador|Nome completo|Número de identificação (ID)|Nome de utilizador|E-mail|Avaliação/Nota|Nota máxima|A nota pode ser alterada.|Não
ro|Identificator|Nume complet|Număr ID|Nume de utilizator|Adresa de e-mail|Notă|Notă maximă|Nota poate fi schimbată|Nu
ru|Идентификатор|Полное имя|Индивидуальный номер|Логин|Адрес электронной почты|Оценка|Максимальная оценка|Оценка может быть изменена|Нет
sv|Identifierare|Fullständigt namn|ID nummer|Användarnamn|E-postadress|Betyg|Maxbetyg|Betyg kan ändras|Nej
tr|Tanımlayıcı|Tam adı|ID numarası|Kullanıcı adı|E-posta adresi|Not|Enyüksek not|Not değiştirilebilir|Hayır
uk|Ідентифікатор|Повна назва|Індивідуальний номер|Ім'я входу|Електронна пошта|Оцінка|Максимальна оцінка|Оцінка може бути змінена|Ні
zh|标识符|全名|学号|用户名|电子邮件地址|成绩|最高分|允许更改成绩|否
"""  # noqa: E501


def headings(role: str) -> tuple[str, ...]:
    """Return the words of a role in all languages, English first.

    >>> headings("most")[:3]
    ('Maximum grade', 'Qualificació màxima', 'Bestwertung')
    """
    place = ROLES.index(role) + 1
    rows = [line.split("|") for line in _BY_LANGUAGE.strip().splitlines()]
    return tuple(dict.fromkeys(word for row in rows for word in row[place].split("/")))
